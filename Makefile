# Development tasks; `make` lists them. CARGO_TARGET_DIR is respected.
.DEFAULT_GOAL := help
CARGO ?= cargo
SHELL := /bin/bash

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## build weft and run the demo on the embedded model, without input
	# The model's arithmetic is optimised in every profile, so a debug build is fast enough.
	$(CARGO) build --locked -p weftwork-cli --bin weft
	$(CARGO) run --locked --quiet -p weftwork-cli --bin weft -- demo

.PHONY: demo-scripted
demo-scripted: ## run the demo on the scripted model
	$(CARGO) run --locked --quiet -p weftwork-cli --bin weft -- --model scripted demo --fast

.PHONY: demo-platform
demo-platform: ## build weft and run the demo of agents that ask other agents; WEFT_MODEL is the model
	$(CARGO) build --locked -p weftwork-cli --bin weft
	python3 examples/platform/demo.py

.PHONY: check
check: ## check what changed since main, and what uses it; before each commit, a minute or two
	$(CARGO) xtask check

.PHONY: test
test: ## run the checks that every change must pass; prints seconds per stage and all skips
	scripts/bootstrap.sh
	$(CARGO) xtask suite --tier fast

.PHONY: test-full
test-full: ## run the same checks and the long-running ones
	scripts/bootstrap.sh --full
	$(CARGO) xtask suite --tier full

.PHONY: test-live
test-live: ## run the demo against a real OpenAI-compatible server with the same weights, and on each provider with a key
	scripts/test-live.sh

.PHONY: eval
eval: ## evaluate the embedded model on sets of twenty prompts: calls, arguments left out, several calls
	$(CARGO) run --release --locked -p weftwork-local --example eval

.PHONY: bench
bench: ## measure the cost of a task against handwritten code; results in target/bench/engine.json
	$(CARGO) bench --locked -p weftwork-runtime --bench engine

.PHONY: bench-agents
bench-agents: ## measure the reading of 1,000 definitions, and the choice of one for a request
	$(CARGO) bench --locked -p weftwork-platform --bench agents

.PHONY: bench-sandbox
bench-sandbox: ## measure calls of the sandbox against the start of /bin/true
	$(CARGO) bench --locked -p weftwork-sandbox --features process --bench start

.PHONY: bench-scale
bench-scale: ## measure a store with a million threads; results in target/bench/scale.json
	$(CARGO) bench --locked -p weftwork-runtime --bench engine -- threads

.PHONY: bench-peers
bench-peers: ## compare with other engines; the first run builds them (15 minutes)
	python3 bench/peers/run.py

.PHONY: bench-server
bench-server: ## compare the server with `langgraph dev`, and measure the age of words; results in target/bench/server.json
	$(CARGO) build --release --locked -p weftwork-server --example reference_server
	python3 bench/server/run.py

.PHONY: mutants
mutants: ## mutate six crates and count the mutants that the tests detect (an hour)
	scripts/postgres.sh with python3 scripts/mutate.py

.PHONY: web-check
web-check: ## build the page of the server anew, and check that the committed one is the same
	cd web && npm ci --no-audit --no-fund && npm run types && npm run build
	git diff --exit-code -- crates/server/ui web/src/api/routes.ts

.PHONY: screenshots
screenshots: ## take screenshots of each view of the page, for docs/images
	$(CARGO) build --locked --workspace --bin weft --example reference_server
	python3 tests/web/run.py --shots docs/images

.PHONY: lint
lint: ## check formatting, project rules and lints, without the tests
	$(CARGO) xtask suite --only format,tidy,clippy

.PHONY: fmt
fmt: ## format all sources
	$(CARGO) fmt --all
