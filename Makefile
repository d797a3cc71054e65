# DMC-Optim. `make` lists the targets; `make build` and `make test` are all that a fresh machine needs.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
NOT_MARKED := not slow and not vllm and not train

.DEFAULT_GOAL := help
.PHONY: help install build test check bench test-slow test-train docs

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

install: $(STAMP) ## Create .venv with everything; .venv/bin/dmc-optim runs from it

$(STAMP): setup.py requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $(STAMP)

build: install ## Install, then build the bundled corpus into out/
	$(BIN)/dmc-optim build --out out

test: install ## All tests but the slow ones
	$(BIN)/pytest -q -m "$(NOT_MARKED)"

test-slow: install ## Leak, fault and scale tests that take minutes
	$(BIN)/pytest -q -m slow

test-train: install ## Tests of training against torch
	$(BIN)/pytest -q -m train || test $$? -eq 5

check: install ## Lint, types, layers, sizes, documented commands
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python make/sizes.py
	$(BIN)/pytest -q tests/cli/test_docs.py

docs: install ## Write the generated pages: commands, tables
	$(BIN)/python make/cli_docs.py > docs/cli.md
	$(BIN)/python -m dmc_optim.report.tables_doc > docs/tables.md

bench: install ## Benchmarks: ratios inside one run, one after another
	@for script in bench/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

include make/*.mk
