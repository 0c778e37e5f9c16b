#!/bin/sh
# Prepares .venv from the lock of names, versions and hashes. Needs Python 3.11 or later, and nothing else.
# Costs nothing the second time: the stamp names the locks it was made from.
set -eu
cd "$(dirname "$0")/.."

stamp=.venv/.tidegate-ready
wanted=$(cat requirements/*.lock pyproject.toml | cksum)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

python=""
for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null 2>&1 && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$name; break
    fi
done
[ -n "$python" ] || die "no Python 3.11 or later was found. Install one, or name it: make setup PYTHON=/path/to/python3"

if [ ! -x .venv/bin/python ]; then
    say "1/3 a virtual environment with $($python --version)"
    said=$("$python" -m venv .venv 2>&1) || {
        printf '%s\n' "$said" >&2; rm -rf .venv
        die "Python cannot make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv"; }
fi
say "2/3 uv, by version and hash"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock ||
    die "uv could not be installed: is a package index reachable? Behind a proxy set PIP_INDEX_URL or PIP_CERT and run make setup again."
say "3/3 packages, by version and hash (about 1 GB; a minute or two when nothing is cached)"
VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip sync --compile-bytecode --require-hashes --allow-empty-requirements requirements/dev.lock requirements/uv.lock ||
    die "packages could not be installed: is a package index reachable? Behind a proxy set UV_DEFAULT_INDEX or SSL_CERT_FILE and run make setup again."
VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --quiet --no-deps -e . || die "tidegate itself could not be installed into .venv"
printf '%s\n' "$wanted" > "$stamp"
say "done: the command is .venv/bin/tidegate"
