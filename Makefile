# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv and installs what it needs.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: demo test check bench clean

demo: .venv/demo.stamp
	$(BIN)/chiplog demo

# A test that fails beside two others is run once more, alone: some of them judge times. Failing alone is failing.
test: .venv/dev.stamp check
	$(BIN)/pytest -n 3 --dist worksteal || $(BIN)/pytest --last-failed --last-failed-no-failures=none --maxfail 1

check: .venv/dev.stamp
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy

bench: .venv/dev.stamp
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml | .venv/bin/python
	$(PIP) -e '.[read]'
	touch $@

# The page's modules are served as they are written; TypeScript only checks them, in tests/views/web/test_types.py, with the
# tsc of Debian's node-typescript. Neither installing nor running needs node.
# On CI the Debian packages that some tests need are installed first, and then no test may be skipped.
.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
ifeq ($(CI),true)
	.ci/packages
endif
	$(PIP) -c constraints.txt -e '.[dev]'
	touch $@ .venv/demo.stamp
