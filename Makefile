# Every target does its own set-up: `make demo` and `make test` work on a machine with Python 3.11 and nothing else.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -q -n 2 --dist loadfile
SGLANG_VENV := .venv-sglang
INSTALLED := $(VENV)/.installed
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo demo-distributed up test test-all check bench sdk openapi proto lock postgres redis sglang clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

$(INSTALLED): pyproject.toml requirements.lock
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.lock
	$(PIP) --no-deps -e .
	touch $@

demo: $(INSTALLED) ## train a small policy through a service of its own; writes demo-out/reward.png
	$(VENV)/bin/rollway demo

demo-distributed: $(INSTALLED) postgres redis sglang ## the same trainer on PostgreSQL, Redis, Celery, gRPC and SGLang on this CPU
	$(PY) -m tests.demo_distributed

up: $(INSTALLED) ## serve on 127.0.0.1:8080 with SQLite and an embedded worker until Ctrl-C
	$(VENV)/bin/rollway up

test: $(INSTALLED) postgres redis sglang check ## every check and test but the long suites
	$(PYTEST) -m "not slow and not gpu"

test-all: $(INSTALLED) postgres redis sglang check ## the long suites too
	$(PYTEST) -m "not gpu"

check: $(INSTALLED) ## lint, types, import direction, generated files, migrations
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) clients/python/tools/make_sync_client.py --check
	$(PY) clients/python/tools/make_openapi.py --check
	$(PY) clients/python/tools/make_proto.py --check
	$(PY) migrations/check.py

bench: $(INSTALLED) postgres redis sglang ## measure every figure of the README; writes bench.json
	$(PY) -m tests.bench all

sdk: $(INSTALLED) ## make the sync client from the async one
	$(PY) clients/python/tools/make_sync_client.py

openapi: $(INSTALLED) ## write clients/openapi.json
	$(PY) clients/python/tools/make_openapi.py

proto: $(INSTALLED) ## make the Python modules of the .proto files
	$(PY) clients/python/tools/make_proto.py

lock: $(INSTALLED) ## write requirements.lock from what is installed now
	$(PY) -m pip freeze --exclude-editable | sed -E 's/\+cpu$$//' > requirements.lock

postgres: ## install PostgreSQL 15 from Debian when it is missing
	@deploy/install_postgres.sh

redis: ## install redis-server from Debian when it is missing
	@deploy/install_redis.sh

sglang: ## install SGLang for CPUs in an environment of its own, unless ROLLWAY_SGLANG_PYTHON names one
	@[ -n "$$ROLLWAY_SGLANG_PYTHON" ] || PYTHON=$(PYTHON) deploy/install_sglang.sh $(SGLANG_VENV) cpu

clean: ## remove what the other targets made
	rm -rf $(VENV) $(SGLANG_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo-out bench.json
