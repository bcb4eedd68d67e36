# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv and installs what it needs.
# `make test PYTHON=python3.13` does the same for another Python, in an environment of its own.

PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

# The core suite: what a run writes and what is read of it, without the tests of services, other trackers, torch and jax.
CORE_TESTS := tests/core tests/store tests/assembly $(addprefix --ignore=tests/core/,engine/test_step_loop.py \
	values/test_host_arrays.py values/test_pictures.py run/test_steps_counted.py) \
	$(addprefix --ignore=tests/store/,foreign test_tfrecord_crc.py)
CORE_PACKAGES := '.[read,pandas,polars,data,plot,ui,cpu,yaml,otel,wandb]' duckdb hypothesis pytest pytest-timeout \
	pytest-xdist viztracer

.PHONY: demo test test-newer test-core check bench clean

demo: $(VENV)/demo.stamp
	$(BIN)/chiplog demo

# A test that fails in parallel with others is run once more, alone: some of them judge times. Failing alone is failing.
test: $(VENV)/dev.stamp check
	$(BIN)/pytest -n 3 --dist worksteal || $(BIN)/pytest --last-failed --last-failed-no-failures=none --maxfail 1

# The core suite on a newer Python than 3.11, another one after every commit.
test-newer:
	@newer=$$(.ci/newer-python); if [ -n "$$newer" ]; then $(MAKE) test-core PYTHON=$$newer; \
	else echo "test-newer: there is no Python 3.12, 3.13 or 3.14 on this machine; nothing was tested"; fi

test-core: $(VENV)/core.stamp
	$(BIN)/python --version
	$(BIN)/pytest -n 3 --dist worksteal $(CORE_TESTS) || \
	$(BIN)/pytest --last-failed --last-failed-no-failures=none --maxfail 1 $(CORE_TESTS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[read]'
	touch $@

# The page's modules are served as they are written; TypeScript only checks them, in tests/views/web/test_types.py, with the
# tsc of Debian's node-typescript. Neither installing nor running needs node.
# On CI the Debian packages that some tests need are installed first, and then no test may be skipped.
$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
ifeq ($(CI),true)
	.ci/packages
endif
	$(PIP) -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/demo.stamp $(VENV)/core.stamp

$(VENV)/core.stamp: Makefile pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e $(CORE_PACKAGES)
	touch $@ $(VENV)/demo.stamp
