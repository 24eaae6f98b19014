# Two targets need nothing but Python 3.11, make and the package index: make demo, make test.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-spark system check lint types contracts docs bench bench-large bench-odds bench-spark bench-tally-size \
  bench-feedback bench-serve soak soak-short bench-exports bench-drift bench-report figures picture readme example wheel lock format clean

help:  ## print these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Locked and hashed; the package itself is installed in place, without fetching a build environment.
.venv/run: requirements/run.lock pyproject.toml
	@test -d .venv || $(PYTHON) -m venv .venv
	@$(PIP) install --require-hashes -r requirements/run.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# What the page of the demo needs.
.venv/report: requirements/report.lock .venv/run
	@$(PIP) install --require-hashes -r requirements/report.lock
	@touch $@

.venv/dev: requirements/dev.lock .venv/run
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

.venv/spark: requirements/spark.lock .venv/dev
	@$(PIP) install --require-hashes -r requirements/spark.lock
	@touch $@

.venv/docs: requirements/docs.lock .venv/dev
	@$(PIP) install --require-hashes -r requirements/docs.lock
	@touch $@

demo: .venv/report  ## run the main job: the paper's simulation, start to finish
	@$(BIN)/evenodds demo --force

test: .venv/dev  ## run the tests
	@$(BIN)/pytest -n auto

test-browser: .venv/dev  ## the tests that drive Chromium and Node.js (make system installs these)
	@$(BIN)/pytest -m "browser or node"

test-spark: .venv/spark  ## the tests on Apache Spark (make system installs Java)
	@$(BIN)/pytest -m spark

system:  ## install what Debian has and the other tests need: Chromium, Node.js, Java
	@.ci/system

check: lint types contracts docs soak-short test-browser test-spark test  ## all that CI runs, the tests last

lint: .venv/dev  ## ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/spark  ## mypy, strict; PySpark brings its own types
	@$(BIN)/mypy

contracts: .venv/dev  ## import-linter: which room may use which
	@$(BIN)/lint-imports

docs: .venv/docs  ## build the documentation site into build/site, warnings as errors, no network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "built build/site/index.html"

bench: .venv/run  ## one table of ratios, measured in one run
	@$(BIN)/python bench/run.py

bench-large: .venv/run  ## the same, with 50 million rows (needs 1 GB of disk)
	@$(BIN)/python bench/run.py --large

bench-odds: .venv/dev  ## equalized odds: solvers against the whole linear program
	@$(BIN)/python bench/odds_movement.py
	@$(BIN)/python bench/odds_frontier.py

bench-feedback: .venv/dev  ## a server killed 20 times in 1,000,000 events of feedback: each counted once
	@$(BIN)/python bench/feedback.py

bench-serve: .venv/dev  ## the server: requests a second against its own hello, p99 against p50
	@$(BIN)/python bench/serve.py

soak: .venv/dev  ## the server under load: 20 models swapped in 60 s, two hours' requests in minutes
	@$(BIN)/python bench/reload.py
	@$(BIN)/python bench/soak.py

soak-short: .venv/dev  ## the same in half a minute
	@$(BIN)/python bench/reload.py --seconds 10 --reloads 8
	@$(BIN)/python bench/soak.py --requests 16000 --most 0.1

bench-exports: .venv/spark  ## exports in onnxruntime, DuckDB and Spark, against transform
	@$(BIN)/python bench/exports.py --spark

bench-drift: .venv/dev  ## drift: false alarms, and drifts found
	@$(BIN)/python bench/drift_level.py

bench-spark: .venv/spark  ## Spark against SQL and the local engine, 50 million rows (1 GB of disk); and streams
	@$(BIN)/python bench/spark.py
	@$(BIN)/python bench/stream.py

bench-tally-size: .venv/run  ## what a tally weighs, by groups, positions and cells
	@$(BIN)/python bench/tally_size.py

bench-report: .venv/dev  ## how long a report takes, and how large it is
	@$(BIN)/python bench/report.py

figures: .venv/run  ## the figures on the paper's simulation: fairness on fresh lists, errors of w
	@$(BIN)/python bench/fairness.py

example: .venv/run  ## make the small log that ships
	@$(BIN)/evenodds simulate -o examples/impressions.parquet --queries 1000 --seed 1 --force

picture: .venv/dev  ## the picture of a report in the README (needs Chromium)
	@$(BIN)/python bench/picture.py

readme: .venv/dev  ## put what the commands print into the README and the pages of the site
	@$(BIN)/python bench/readme.py

wheel: .venv/run  ## build the wheel and try it in an environment of its own
	@rm -rf build/wheel && mkdir -p build/wheel
	@$(PIP) wheel --no-deps --no-build-isolation -w build/wheel .
	@$(PYTHON) -m venv build/wheel/venv
	@build/wheel/venv/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/run.lock
	@build/wheel/venv/bin/python -m pip --disable-pip-version-check --quiet install --no-deps build/wheel/*.whl
	@cd build/wheel && venv/bin/evenodds demo --queries 2000 --force

lock:  ## renew the lock files (needs uv)
	cd requirements && for name in run dev report spark docs; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --custom-compile-command "make lock" $$name.in -o $$name.lock; done

format: .venv/dev  ## let ruff fix and format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean:  ## remove everything that was made
	rm -rf .venv build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
