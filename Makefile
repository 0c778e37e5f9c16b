# Every target prepares the environment first; that costs nothing the second time.
BIN := .venv/bin
SEED ?= 1
HOURS ?= 24
SEEDS ?= 1
MINUTES ?= 0
SECONDS ?= 20

# A machine may forbid it to write compiled modules. Tests start hundreds of processes: each would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=


.PHONY: help setup demo test check static fast bench sim chaos mutants requirements reference lock format

help:            ## what there is
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:           ## the environment, in .venv
	@tools/setup.sh

demo: setup      ## the main job on real data: three minutes, and every promise checked
	@$(BIN)/python -m demo

check: setup     ## format, lint, types, contracts, fast tests
	@$(MAKE) --no-print-directory -j 2 static fast

static:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# A fast test waits a good part of its time: one more process than cores keeps them busy.
fast:
	$(BIN)/pytest -n 3 --dist loadgroup -m "not slow and not spark"

test: setup      ## the whole test suite, with real PostgreSQL, Spark and Iceberg
	$(BIN)/pytest -n 2 --dist loadgroup

bench: setup     ## benchmarks, as ratios within one run
	@$(BIN)/python -m bench

sim: setup       ## the engine in a false world: make sim SEED=7 HOURS=240 SEEDS=100; SWARM=1: each seed its own mix
	@$(BIN)/python -m tidegate.sim --seed $(SEED) --hours $(HOURS) --seeds $(SEEDS) --minutes $(MINUTES) $(if $(SWARM),--swarm)

chaos: setup     ## real processes under real faults, and a history that is checked: make chaos MINUTES=60 SEED=7
	@$(BIN)/python -m chaos --seed $(SEED) --seconds $(SECONDS) --minutes $(MINUTES)

mutants: setup   ## put known mistakes back one at a time: a check must see each
	@$(BIN)/python tools/mutants.py --page docs/reference/mutants.md

requirements: setup  ## which test proves which line
	@$(BIN)/python tools/requirements.py

reference: setup ## the pages of docs/reference that are made from the code
	@$(BIN)/python tools/run_states.py > docs/reference/run-states.md
	@$(BIN)/python tools/command_page.py > docs/reference/command-line.md
	@$(BIN)/python tools/document_page.py > docs/reference/documents.md
	@$(BIN)/python tools/options_page.py > docs/reference/maintenance-options.md
	@$(BIN)/python tools/history_page.py > docs/reference/history.md
	@$(BIN)/python -m tidegate.settings > docs/reference/settings.md
	@$(BIN)/python -m tidegate.api.reference > docs/reference/rest.md

format: setup    ## put the code into the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup      ## renew the locks from pyproject.toml (names, versions and hashes only)
	$(BIN)/uv pip compile pyproject.toml --group dev --extra demo --generate-hashes --universal \
	    --python-version 3.11 --no-emit-index-url --no-header --upgrade -q -o requirements/dev.lock
