# Every target makes what it needs: a fresh clone, Python 3.10+ and make are enough for all of them.
#   make                          lists the targets
#   make test ARGS='tests/unit'   passes arguments on to pytest
#   make PYTHON=python3.12 test   chooses the Python that the environment is made from

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
RELEASES ?=
SHARED ?= ../shared

VENV_PY := $(VENV)/bin/python
STAMP := $(VENV)/ebbtide.stamp
# Around everything that starts Spark: JAVA_HOME, and Python workers on the environment's Python.
SPARK := sh scripts/with_spark.sh $(VENV_PY)

# Those that need delta-spark in the session itself.
IN_REFERENCE_SESSION := $(patsubst %,tests/interop/test_reference_%.py,alter cases conflicts differences vacuum)

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types conformance torture bench bench-peers matrix reference connector interop format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name words; do printf '  %-13s %s\n' "$$name" "$$words"; done

setup: $(STAMP) ## make the environment (every target below does that itself)

demo: $(STAMP) ## a table, a few commands, and what they left behind
	@$(SPARK) scripts/demo.py $(ARGS)

test: $(STAMP) ## the whole suite, on classic Spark and on Spark Connect
	@$(SPARK) scripts/run_tests.py $(ARGS)

lint: $(STAMP) ## ruff, the formatter, and the direction of imports
	@$(VENV_PY) -m ruff check .
	@$(VENV_PY) -m ruff format --check .
	@$(VENV)/bin/lint-imports --no-logo

types: $(STAMP) ## mypy, strict
	@$(VENV_PY) -m mypy
	@$(VENV_PY) -m mypy scripts/*.py

conformance: $(STAMP) ## the golden tables and behaviour cases of ../shared
	@test -d $(SHARED)/golden || { echo "make conformance reads the golden tables and cases in $(SHARED), and that directory is not there." >&2; exit 1; }
	@$(SPARK) scripts/run_tests.py $(if $(ARGS),tests/conformance $(ARGS),--conformance)

torture: $(STAMP) ## many writers on one table against a model (ARGS='--minutes 10 --seed 7 --store s3')
	@$(SPARK) -m tests.torture $(ARGS)

bench: $(STAMP) ## the benchmarks
	@$(SPARK) -m bench $(ARGS)

bench-peers: $(STAMP) ## the same work by delta-spark, deltalake, Sail and us, side by side (ARGS='--short')
	@$(VENV_PY) scripts/other_engines.py bench.peers $(ARGS)

matrix: $(STAMP) ## the short suite on the oldest and the newest PySpark 4.x (ARGS='--short')
	@$(VENV_PY) scripts/matrix.py $(RELEASES) $(ARGS)

reference: $(STAMP) ## our DELETE, UPDATE and MERGE judged by delta-spark itself, whose JAR Maven downloads
	@$(VENV_PY) scripts/reference_jars.py build/reference
	@$(SPARK) -m pytest -m reference $(if $(ARGS),$(ARGS),tests/interop)
	@$(if $(ARGS),true,$(SPARK) -m pytest -m reference --spark=reference $(IN_REFERENCE_SESSION))

connector: $(STAMP) ## tables in S3 (moto) through Spark's own connector, which Maven downloads
	@$(VENV_PY) scripts/connector_jars.py build/connector
	@$(SPARK) -m pytest -m connector $(if $(ARGS),$(ARGS),tests/connector)
	@$(SPARK) -m pytest -m connector --spark=connect $(if $(ARGS),$(ARGS),tests/connector)

interop: $(STAMP) ## other engines read what we write, write what we read, and take turns with us (ARGS='--short')
	@$(VENV_PY) scripts/other_engines.py interop $(ARGS)

format: $(STAMP) ## let ruff rewrite what it can
	@$(VENV_PY) -m ruff check --fix-only --quiet .
	@$(VENV_PY) -m ruff format --quiet .

clean: ## remove everything that make and Spark leave in the tree
	@rm -rf $(VENV) .venvs build dist artifacts spark-warehouse metastore_db derby.log
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests scripts bench interop -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The check is in the shell's words, because a Python that is too old could not even read the script that comes next.
$(STAMP): pyproject.toml constraints.txt scripts/environment.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { echo "Ebbtide needs Python 3.10 or newer, and \`$(PYTHON)\` is $$($(PYTHON) --version 2>&1 | head -n 1 | grep '^Python' || echo 'not there'): install one, or name one with \`make PYTHON=python3.12\`." >&2; exit 1; }
	@$(PYTHON) scripts/environment.py $(VENV)
