# make run: from a new clone to datasets. Needs python3 (3.11 or newer) with venv, nothing else.
# Another Python: make setup PYTHON=python3.12        Another pipeline: make run PIPELINE=pipelines/tiny.yaml

PYTHON   ?= python3
PIPELINE ?= pipelines/eurlex.yaml
VENV     := .venv
BIN      := $(VENV)/bin
PIP      := $(BIN)/python -m pip --quiet --disable-pip-version-check
APT      := DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20

# Modules are compiled once, when first imported: without their bytecode every process would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup browser run test test-annif test-cluster test-ecosystem test-slurm debian-slurm reproduce docs \
        campaign lint bench bench-pecos clean
.DEFAULT_GOAL := help

help:
	@echo "make setup   make $(VENV) and install what run and test need (again only when pyproject.toml changed)"
	@echo "make run     setup, then xpipe run $(PIPELINE), then what each method is worth"
	@echo "make test    setup and Chromium where it may be installed, then pytest"
	@echo "make test-ecosystem  datasets, mlcroissant, Ray, MLflow and others in $(VENV)-ecosystem, then the tests with them"
	@echo "make reproduce NAME [DATA=folder]  measure a published figure again, compare, write its page; without NAME: the list"
	@echo "make test-annif  an environment for Annif in $(VENV)-annif, then the tests of its backend xpipe"
	@echo "make test-slurm  setup and a real SLURM (as root, on Debian), then cluster: NAME on it"
	@echo "make test-cluster  that, and workers in network namespaces"
	@echo "make docs    setup, then the site: docs/_build/html/index.html"
	@echo "make campaign  long attacks: kills at every file operation, mutated inputs, random problems, proofs (half an hour)"
	@echo "make lint    setup, then ruff and mypy"
	@echo "make bench   setup and the peers, then benchmarks/ (but against.py and constants.py, which need a commit or data)"
	@echo "make bench-pecos  an environment for PECOS in $(VENV)-pecos: benchmarks/tree.py then measures it too"
	@echo "make clean   remove $(VENV) and tool caches; runs/ and data/ stay"

setup: $(VENV)/.installed

# The stamp is written last: an interrupted installation is taken up again by the next call.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "xpipe needs Python 3.11 or newer; '$(PYTHON)' is missing or older."; \
	  echo "  try: make setup PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' comes without venv."; \
	  echo "  try: sudo apt install python3-venv"; exit 1; }
	@test -x $(BIN)/python || echo "making $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing xpipe and what it needs (once; a few minutes)"
	@$(PIP) install --no-compile -e '.[dev,docs,gpu,heads]'  # most modules are never imported; the others compile then
	@touch $@

# Tests look at reports in a real browser where there is one. It is installed where that needs no question; else they skip.
browser:
	@command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && echo "installing Chromium for the tests" && \
	  { $(APT) install chromium || { $(APT) update && $(APT) install chromium; }; } </dev/null >/dev/null 2>&1; } || \
	  echo "no Chromium, and it cannot be installed here: tests that need a browser will be skipped"

$(VENV)/.bench-installed: $(VENV)/.installed pyproject.toml
	@echo "installing the peers to measure against"
	@$(PIP) install -e '.[bench]'
	@touch $@

run: setup
	@$(BIN)/xpipe run $(PIPELINE)
	@test $(PIPELINE) != pipelines/eurlex.yaml || $(BIN)/xpipe --quiet run pipelines/eurlex_methods.yaml

test: setup browser
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The tools that open what xpipe writes. They bring many packages, so they have an environment of their own.
ECOSYSTEM := 'datasets==5.2.0' 'mlcroissant==1.1.1' 'pandas==3.1.1' 'dask[dataframe]' 'ray[data]==2.60.0' 'mlflow==3.17.2' \
             'pytest>=8' 'hypothesis>=6.100' 'moto[s3]>=5' 'polars>=1.0' 'duckdb>=1.0'

test-ecosystem: $(VENV)-ecosystem/.installed
	@XPIPE_TEST_ECOSYSTEM=1 HF_HUB_OFFLINE=1 RAY_USAGE_STATS_ENABLED=0 $(VENV)-ecosystem/bin/python -m pytest -W default tests/ecosystem

$(VENV)-ecosystem/.installed: pyproject.toml
	@test -x $(VENV)-ecosystem/bin/python || $(PYTHON) -m venv $(VENV)-ecosystem
	@echo "installing the tools of the ecosystem (once; a few minutes)"
	@$(VENV)-ecosystem/bin/python -m pip --quiet --disable-pip-version-check install -e . $(ECOSYSTEM)
	@touch $@

# `make reproduce eagle_fig3`: the word after reproduce is a name, not a target.
ifeq (reproduce,$(firstword $(MAKECMDGOALS)))
NAME ?= $(word 2,$(MAKECMDGOALS))
$(if $(word 2,$(MAKECMDGOALS)),$(eval $(word 2,$(MAKECMDGOALS)):;@:))
endif

reproduce: setup
	@$(BIN)/python -m reproductions $(NAME) $(if $(DATA),--data '$(DATA)')

# Annif pins releases of numpy and others, so it has an environment of its own. omikuji: its backend, to compare with.
test-annif: $(VENV)-annif/.installed
	@$(VENV)-annif/bin/python -m pytest -W default tests/annif

$(VENV)-annif/.installed: pyproject.toml
	@test -x $(VENV)-annif/bin/python || $(PYTHON) -m venv $(VENV)-annif
	@echo "installing Annif and xpipe (once; a few minutes)"
	@$(VENV)-annif/bin/python -m pip --quiet --disable-pip-version-check install 'annif[omikuji]==1.4.3' -e . pytest hypothesis
	@touch $@

# Tests of real clusters: a SLURM of one node in a temporary folder, and namespaces. They need root, and take minutes.
$(VENV)/.slurm-installed: $(VENV)/.installed pyproject.toml
	@$(PIP) install -e '.[slurm]'
	@touch $@

debian-slurm:
	@test -x /usr/sbin/slurmctld -a -x /usr/sbin/munged -a -x /usr/sbin/slurmd || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && echo "installing SLURM for the tests" && \
	  { $(APT) install slurm-wlm munge iproute2 || { $(APT) update && $(APT) install slurm-wlm munge iproute2; }; } \
	  </dev/null >/dev/null 2>&1; } || { echo "no SLURM, and it cannot be installed here: that needs root and Debian"; exit 1; }

test-slurm: $(VENV)/.slurm-installed debian-slurm
	@XPIPE_TEST_CLUSTERS=1 $(BIN)/python -m pytest tests/clusters/test_slurm.py

test-cluster: $(VENV)/.slurm-installed debian-slurm
	@XPIPE_TEST_CLUSTERS=1 $(BIN)/python -m pytest tests/clusters

docs: setup
	@$(BIN)/python -m sphinx -q -W --keep-going -n -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

campaign: setup
	@$(BIN)/python -m tests.campaigns

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(VENV)/.bench-installed
	@code=0; for file in $(filter-out benchmarks/against.py benchmarks/constants.py benchmarks/named_figures.py, $(sort $(wildcard benchmarks/*.py))); do \
	  echo "== $$file"; $(BIN)/python $$file || code=1; done; exit $$code

# PECOS needs numpy below 2. The torch it asks for is pinned to the one the heads use: newer ones bring gigabytes.
bench-pecos: $(VENV)-pecos/.installed

$(VENV)-pecos/.installed:
	@test -x $(VENV)-pecos/bin/python || $(PYTHON) -m venv $(VENV)-pecos
	@echo "installing PECOS (once; a few minutes)"
	@$(VENV)-pecos/bin/python -m pip --quiet --disable-pip-version-check install 'libpecos==1.2.8' 'numpy<2' 'torch==2.13.0'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist docs/_build
