# All set-up is done by the targets themselves. Needed: Python 3.11 or newer with venv; uv is used where it exists.

BIN := .venv/bin
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)

# Where no bytecode may be written, each worker would rewrite the asserts of all tests again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist worksteal -q --durations=10

.PHONY: demo test e2e faults claude check audit sbom bench bundle clean

demo: .venv/product ## the main job on the shipped transcript
	$(BIN)/swarm-memory demo

test: .venv/ready ## all tests but those of `make e2e`
	$(PYTEST) -m "not e2e"

e2e: .venv/ready ## the tests with real agents, the Inspector, the conformance suite and a browser, as far as they are there
	$(PYTEST) -m e2e

faults: .venv/ready ## the fault rig at full length
	$(BIN)/python scripts/build_affected_sqlite.py
	FAULTS=full $(BIN)/pytest --timeout=3600 -m "fault or attack" -q

claude: .venv/ready ## the tests with Claude Code, with another version of it: make claude VERSION=2.1.197
	npm install --prefix build/claude-$(VERSION) --no-audit --no-fund --loglevel=error @anthropic-ai/claude-code@$(VERSION)
	CLAUDE_CODE=$(CURDIR)/build/claude-$(VERSION)/node_modules/.bin/claude $(BIN)/pytest -q tests/e2e

check: .venv/ready ## linters, types, import rules, size limits, the picture of the rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/python scripts/draw_rooms.py --check

audit: .venv/ready ## known holes in the locked dependencies, as far as the index answers
	$(BIN)/python scripts/audit.py

sbom: .venv/ready ## the locked dependencies as a CycloneDX bill of materials
	$(BIN)/python scripts/audit.py --sbom build/sbom.cdx.json

bench: .venv/ready ## speed of the server and of hooks, as ratios measured in one run
	$(BIN)/python benchmarks/speed_server.py

MCPB := @anthropic-ai/mcpb@2.1.2
bundle: .venv/ready ## dist/swarm-memory.mcpb, for Claude Desktop
	rm -rf build/bundle dist/swarm-memory.mcpb
	$(BIN)/python scripts/release.py --bundle build/bundle
	npx --yes $(MCPB) validate build/bundle/manifest.json
	mkdir -p dist && npx --yes $(MCPB) pack build/bundle dist/swarm-memory.mcpb

clean:
	rm -rf .venv

# The product alone, which is all that a demo needs.
.venv/product: pyproject.toml uv.lock
	@if uv --version >/dev/null 2>&1; then \
		echo "Installing swarm-memory and what it needs into .venv with uv: about 300 MB, once" && \
		uv sync --frozen --inexact --no-default-groups; \
	elif [ -n "$(PYTHON)" ]; then \
		echo "Installing swarm-memory and what it needs into .venv with pip: about 300 MB, once" && \
		$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --disable-pip-version-check --editable .; \
	else \
		echo "Python 3.11 or newer with venv is needed (or uv); none was found. Name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi
	@touch $@

# What tests and linters need beside it. pip knows groups from 25.1 on.
.venv/ready: .venv/product
	@echo "Adding what tests and linters need: about 200 MB more, once"
	@if uv --version >/dev/null 2>&1; then \
		uv sync --frozen; \
	else \
		$(BIN)/python -m pip install --disable-pip-version-check 'pip>=25.1' && \
		$(BIN)/python -m pip install --group dev; \
	fi
	@touch $@
