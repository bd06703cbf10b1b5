# The two-word interface. `make` alone prints the targets; each calls one verb of `kit`.
# The deployment is kit.yaml; another: make up KIT_FILE=examples/embedded.yaml

PYTHON ?= python3
KIT_FILE ?= kit.yaml
KIT := .venv/bin/kit
export KIT_FILE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-docker test-slow image up down status smoke doctor diagnose bundle render lint docs lock-kit clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: KIT_FILE = examples/embedded.yaml
demo: .venv/.ready ## embedded deployment from nothing: set up, build, start, check; no GPU needed
	@$(KIT) engine setup
	@$(KIT) image build --relock
	@$(KIT) up

image: .venv/.ready ## build the image of KIT_FILE
	@$(KIT) image build

up: .venv/.ready ## start the service, wait until it is ready, run the smoke test
	@$(KIT) up

down: .venv/.ready ## stop the service
	@$(KIT) down

status: .venv/.ready ## is it alive, ready, and accepting drafts
	@$(KIT) status

smoke: .venv/.ready ## test the running service: acceptance, counters, gates
	@$(KIT) smoke

doctor: .venv/.ready ## say before the load what will not work
	@$(KIT) doctor

diagnose: .venv/.ready ## explain the last start from its log
	@$(KIT) diagnose

render: .venv/.ready ## write Dockerfile, compose file, launch script, unit from KIT_FILE
	@$(KIT) render

bundle: .venv/.ready ## pack everything for operators without internet
	@$(KIT) bundle pack

test: test-fast test-docker ## all tests: fast ones, then those with real Docker and real vLLM

test-fast: .venv/.ready-dev ## tests that need no Docker (under two minutes)
	@.venv/bin/python -m pytest -n auto tests/unit

test-docker: .venv/.ready-dev ## tests with real Docker and real vLLM
	@.venv/bin/python -m pytest -m 'docker and not slow' tests/docker

test-slow: .venv/.ready-dev ## patches red and green on real engines, the operator's whole way (40 GB, an hour)
	@.venv/bin/python -m pytest -m 'docker and slow' tests/docker

lint: .venv/.ready-dev ## style, types, dead links
	@.venv/bin/ruff check kit tests benchmarks
	@.venv/bin/ruff format --check kit tests benchmarks
	@.venv/bin/mypy

docs: .venv/.ready-dev ## write the generated pages of docs/ anew
	@.venv/bin/python -m kit.docs

lock-kit: .venv/.ready-dev ## resolve the kit's own dependencies anew
	@.venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group build pyproject.toml -o requirements.lock
	@.venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group build --group dev pyproject.toml -o requirements-dev.lock

clean: ## remove the virtual environment and caches (not the store, not deployments)
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache

.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is not Python 3.11 or newer; next: make PYTHON=/path/to/python3.12" >&2; exit 5; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy python3-venv; } || \
	  { echo "error: Python's venv module is missing; next: sudo apt-get install python3-venv" >&2; exit 5; }
	@echo "installing the kit's own packages into .venv" >&2
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r requirements.lock
	@.venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.ready-dev: .venv/.ready requirements-dev.lock
	@.venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r requirements-dev.lock
	@touch $@
