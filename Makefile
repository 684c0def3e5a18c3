# The entry for people and CI.

CARGO ?= cargo
# Most tests wait for processes and sockets, so each core runs two.
TEST_THREADS := $(shell echo $$((2 * $$(nproc))))

.PHONY: help demo demo-agents up build reference test dsl-test dsl-fuzz browser-test lint bench soak fuzz random-compositions mutants fmt docker-up

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-20s %s\n", $$1, $$2 }'

demo: ## build, start all programs, show each feature with its output, and stop
	$(CARGO) build --profile demo --bins
	BIN=target/demo examples/demo.sh

demo-agents: ## show an agent in Python that registers, dies and returns, and a trace of AIO (needs Python, curl)
	./.ci/python
	$(CARGO) build --profile demo --bins
	BIN=target/demo examples/demo-agents.sh

up: ## build, start all programs with the example, and run until Ctrl-C
	$(CARGO) build --profile demo --bins
	BIN=target/demo examples/demo.sh --stay

build: ## debug binaries
	$(CARGO) build --workspace --bins

reference: ## generate docs/reference from the code
	UPDATE_REFERENCE=1 $(CARGO) test --workspace --test docs --test reference --bin registryctl reference

test: lint ## all tests: lints, unit, property, store conformance, acceptance with real processes, registry-dsl
	./.ci/postgres
	./.ci/python
	./.ci/go
	$(CARGO) build --workspace --bins --tests
	RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),$(TEST_THREADS)) $(CARGO) test --workspace --no-fail-fast
	$(MAKE) dsl-test

dsl-test: ## test registry-dsl: types, unit tests, parity with registryctl, the packed package (needs npm)
	$(CARGO) build --workspace --bins
	registry-dsl/scripts/build-wasm.sh
	cd registry-dsl && npm ci --no-audit --no-fund && npm run lint && npm run build && npm run typecheck && npm test && npm run test:package

dsl-fuzz: ## compare the rules of registry-dsl with native ones on mutated files: make dsl-fuzz CASES=100000 (needs npm)
	$(CARGO) build --release --package registry-wasm --example validate_lines
	registry-dsl/scripts/build-wasm.sh
	cd registry-dsl && npm ci --no-audit --no-fund && FUZZ_CASES=$(or $(CASES),100000) \
	  REGISTRY_RULES=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/examples/validate_lines \
	  npm test -- tests/fuzz.test.ts

browser-test: ## test the pages and registry-dsl in Chromium (needs npm and Debian's chromium, or CHROMIUM=PATH)
	$(CARGO) test --workspace --test server --no-run
	registry-dsl/scripts/build-wasm.sh
	cd registry-dsl && npm ci --no-audit --no-fund && npm run build
	cd tests/browser && npm ci --no-audit --no-fund && CARGO="$(CARGO)" npm test

lint: ## formatting, clippy, and proto/ (needs npm)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	./.ci/proto-lint

bench: ## measure against peers and budgets; records the results in bench/README.md
	$(CARGO) build --profile dist --workspace --bins
	target/dist/bench

soak: ## record and check histories under faults: make soak FOR=10m SEED=1 WORKLOAD=budgets
	$(CARGO) build --release --workspace --bins
	target/release/proof soak --for $(or $(FOR),10m) --seed $(or $(SEED),1) $(WORKLOAD:%=--workload %)

fuzz: ## run each fuzz target for a minute (needs cargo-fuzz)
	./.ci/fuzz

random-compositions: ## compare findings of random compositions with their runs: make random-compositions CASES=10000 FIRST=0
	COMPOSITIONS=$(or $(CASES),10000) FIRST=$(or $(FIRST),0) \
	  $(CARGO) test --release --workspace --test compositions

mutants: ## mutation tests of the composition engine (hours, needs cargo-mutants): make mutants SHARD=0/3
	$(CARGO) mutants --package gateway-compose --shard $(or $(SHARD),0/1) --sharding round-robin \
	  --cargo-arg=--lib
	$(CARGO) mutants --package registry-core --file 'crates/registry-core/src/spec/eval/**' \
	  --shard $(or $(SHARD),0/1) --sharding round-robin -- --lib --test properties -- spec evaluation

fmt: ## format the sources
	$(CARGO) fmt --all

docker-up: ## Postgres, two registry servers, a gateway and the demo backend in containers
	docker compose up --build
