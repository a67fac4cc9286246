# `make run` trains a network on data that comes with it, `make test` checks everything in some minutes,
# `make test-slow` what takes longer, `make bench` measures it, `make docs` builds the documentation.
# All install what they need into .venv; PYTHON chooses the interpreter, LOCKED=1 the versions in .ci/lock.txt.
PYTHON ?= python3
BIN := .venv/bin
INSTALL = $(BIN)/pip install --quiet $(if $(LOCKED),--constraint .ci/lock.txt) --editable
# Each process takes tests that follow each other, which share what was compiled, and steals from the other at the end.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal

.PHONY: run test test-slow fuzz bench docs format lock clean

run: .venv/run
	$(BIN)/eqprop train digits
	@echo "eqprop is in $(BIN): say \`source $(BIN)/activate\` once, and then \`eqprop train mnist\`"

# The type check, which takes a minute of one core, goes beside the tests; what it finds is told after them.
test: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@told=$$(mktemp); trap 'rm -f "$$told"' EXIT; \
	$(BIN)/pyright --pythonpath $(BIN)/python > "$$told" & types=$$!; \
	echo '$(PYTEST) -m "not slow"'; $(PYTEST) -m "not slow"; tests=$$?; \
	wait $$types; types=$$?; cat "$$told"; exit $$((tests || types))

# The tests that `make test` leaves out: CONTRIBUTING.md says which.
test-slow: .venv/dev
	$(PYTEST) -m slow

# All benchmarks, or SHORT=1 for a rough idea, or BENCH="floor settle" for some.
bench: .venv/bench
	$(BIN)/python -m benchmarks $(BENCH) $(if $(SHORT),--short)

# Tries to break it, in some minutes; LONG=1 for the long form, FUZZ="calls lines" for some attacks, SEED=7 for others.
fuzz: .venv/dev
	$(BIN)/python -m campaign $(FUZZ) $(if $(LONG),--long) --seed $(or $(SEED),0)

# Into site/; a warning is an error.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The versions of everything that development needs, on any system.
lock: .venv/python
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --no-header --no-annotate --all-extras --python-version 3.11 \
		--output-file .ci/lock.txt pyproject.toml

clean:
	rm -rf .venv site

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "eqprop needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/python pyproject.toml
	$(INSTALL) .
	@touch $@

.venv/dev: .venv/python pyproject.toml
	$(INSTALL) '.[dev]'
	@touch $@ .venv/run

.venv/bench: .venv/python pyproject.toml
	$(INSTALL) '.[bench]'
	@touch $@ .venv/run

.venv/docs: .venv/python pyproject.toml
	$(INSTALL) '.[docs]'
	@touch $@ .venv/run
