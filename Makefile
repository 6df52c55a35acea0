# Every chore of the project. `make` alone lists them. CARGO_TARGET_DIR is respected.
.DEFAULT_GOAL := help
CARGO ?= cargo
SHELL := /bin/bash

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## build weft and play the whole story on the embedded model, without a keyboard
	# The model's arithmetic is optimised in every profile, so the quick build will do.
	$(CARGO) build --locked -p weftwork-cli --bin weft
	$(CARGO) run --locked --quiet -p weftwork-cli --bin weft -- demo

.PHONY: demo-scripted
demo-scripted: ## the same story on the scripted model, built for development
	$(CARGO) run --locked --quiet -p weftwork-cli --bin weft -- --model scripted demo --fast

.PHONY: test
test: ## what every change must pass; prints seconds per stage and every skip
	scripts/bootstrap.sh
	$(CARGO) xtask suite --tier fast

.PHONY: test-full
test-full: ## the same, and the long figures
	scripts/bootstrap.sh --full
	$(CARGO) xtask suite --tier full

.PHONY: test-live
test-live: ## the story against a real OpenAI-compatible server with the same weights
	scripts/test-live.sh

.PHONY: eval
eval: ## twenty prompts a set on the embedded model: calls, arguments left out, several calls
	$(CARGO) run --release --locked -p weftwork-local --example eval

.PHONY: bench
bench: ## what a task costs, against the same work by hand; rows in target/bench/engine.json
	$(CARGO) bench --locked -p weftwork-graph --bench engine

.PHONY: bench-scale
bench-scale: ## the same with a million threads in a store; rows in target/bench/scale.json
	$(CARGO) bench --locked -p weftwork-graph --bench engine -- threads

.PHONY: bench-peers
bench-peers: ## the same work on other engines, side by side; the first time builds them (15 minutes)
	python3 bench/peers/run.py

.PHONY: mutants
mutants: ## break the engine in small places, one at a time, and count what the kit notices (an hour)
	python3 scripts/mutate.py

.PHONY: lint
lint: ## formatting, house rules and lints, without the tests
	$(CARGO) xtask suite --only format,tidy,clippy

.PHONY: fmt
fmt: ## format all sources
	$(CARGO) fmt --all
