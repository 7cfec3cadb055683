# ENVOY_VERSION: which Envoy `make e2e` and the demos run. FILTER: which build of the filter, wasm or module.
# DEMO=once: a demo ends after its walk. ENVOY_GATEWAY: the binary for `make e2e-envoy-gateway`.
ENVOY_VERSION ?= 1.40.0
FILTER ?= wasm
DEMO ?=
export ENVOY_GATEWAY

# What `make e2e-matrix` runs each build on: of each minor version the newest patch that the Python package index has. Its 1.38.3 is built
# without wasm. Where func-e reaches its server, any release will do.
WASM_VERSIONS ?= 1.36.4 1.37.0 1.38.2 1.39.3 1.40.0
MODULE_VERSIONS ?= 1.38.3 1.39.3 1.40.0

# The last Envoy that loads modules and has no way for them to steer.
too_old := 1.37.0

cargo_target := $(or $(CARGO_TARGET_DIR),target)
host_crates := -p limpet-core -p limpet-dynamic-module -p limpet-api -p limpet-model -p limpet-resources -p limpet-outputs -p limpet-xds -p limpet -p limpet-e2e -p limpet-repo-tests -p limpet-panicking-module
with_envoy = LIMPET_FILTER=$(FILTER) e2e/tools/with-envoy.sh $(1)
# Tests take the command as it is built for them: optimising it, with all that the controller depends on, takes minutes.
with_test_cli = LIMPET_BIN=$(cargo_target)/debug/limpet $(1)

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build wasm module cli schema golden descriptors check test test-host test-cli e2e e2e-matrix e2e-kube e2e-envoy-gateway envoy-gateway e2e-istio istiod demo demo-kube bench bench-controller clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: wasm module cli ## The artefacts: dist/limpet.wasm and dist/liblimpet.so (the filter, twice), and dist/limpet (the command)

wasm:
	@e2e/tools/build-wasm.sh

module:
	@e2e/tools/build-module.sh

cli:
	@echo "Building the limpet command (about 4 minutes the first time)"
	@cargo build --locked --release -p limpet
	@mkdir -p dist && cp $(cargo_target)/release/limpet dist/limpet.tmp && mv dist/limpet.tmp dist/limpet

test-cli:
	@echo "Building the limpet command for tests (about 2 minutes the first time)"
	@cargo build --locked --workspace --exclude limpet-e2e --exclude limpet-bench-noop --all-features --bin limpet

schema: ## Regenerate the JSON Schema of the configuration
	@echo "Writing filter/core/schema/limpet.schema.json (1 minute the first time)"
	@UPDATE_SCHEMA=1 cargo test --locked -p limpet-core --features schema --test schema -- --exact the_schema_is_what_the_types_say

descriptors: ## Regenerate what the controller knows of Envoy's protocol buffers
	@echo "Writing controller/outputs/src/descriptors.binpb (2 minutes the first time)"
	@UPDATE_DESCRIPTORS=1 cargo test --locked -p limpet-outputs --test descriptors

golden: ## Write the controller's golden cases anew: controller/tests/golden
	@UPDATE_GOLDEN=1 cargo test --locked -q -p limpet --test golden && git status --short controller/tests/golden

check: ## Format, clippy with warnings denied, licences, and advisories where they can be reached
	@echo "Checking format, lints and dependencies (2 minutes the first time, and 4 more where cargo-deny is not installed)"
	cargo fmt --all --check
	cargo fmt --manifest-path filter/fuzz/Cargo.toml --check
	cargo clippy --locked $(host_crates) --all-targets --all-features -- -D warnings
	@# The tools alone, as the demo has them.
	cargo clippy --locked -p limpet --no-default-features -- -D warnings
	e2e/tools/wasm-target.sh cargo clippy --locked -p limpet-proxy-wasm -p limpet-bench-noop --target wasm32-wasip1 -- -D warnings
	e2e/tools/deny.sh

test: test-host ## Every test: unit, property, vectors, and end to end on Envoy 1.40.0 (both builds) and 1.36.4 (wasm), and in a Kubernetes cluster
	@$(MAKE) e2e ENVOY_VERSION=1.36.4 FILTER=wasm
	@$(MAKE) e2e ENVOY_VERSION=1.40.0 FILTER=wasm
	@$(MAKE) e2e ENVOY_VERSION=1.40.0 FILTER=module
	@$(MAKE) e2e-kube ENVOY_VERSION=1.40.0

test-host:
	@echo "Testing what needs no Envoy (2 minutes the first time)"
	cargo test --locked --workspace --exclude limpet-e2e --exclude limpet-bench-noop --all-features
	cargo test --locked --manifest-path filter/fuzz/Cargo.toml --target-dir $(cargo_target)/fuzz
	python3 filter/core/tests/verify_vectors.py
	python3 filter/core/tests/verify_keyring_vectors.py

e2e: wasm module test-cli ## The end-to-end tests on one Envoy, with one build of the filter: make e2e ENVOY_VERSION=1.38.3 FILTER=module
	@e2e/tools/build-panicking-module.sh
	@echo "Testing the $(FILTER) filter end to end on Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@FUNC_E=$$(e2e/tools/func-e.sh) && HAPROXY=$$(e2e/tools/haproxy.sh) && ENVOY_TOO_OLD=$$(e2e/tools/envoy.sh $(too_old)) && export FUNC_E HAPROXY ENVOY_TOO_OLD && $(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) cargo test --locked -p limpet-e2e

e2e-matrix: ## The end-to-end tests on every supported minor version of Envoy (2 minutes each)
	@failed=; \
	for run in $(WASM_VERSIONS:%=%:wasm) $(MODULE_VERSIONS:%=%:module); do \
		$(MAKE) e2e ENVOY_VERSION=$${run%:*} FILTER=$${run#*:} || failed="$$failed $$run"; \
	done; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed"; exit 1; fi

e2e-kube: wasm module test-cli ## The end-to-end tests of the controller, with a genuine API server (4 minutes more the first time: it is built)
	@echo "Testing the controller in a Kubernetes cluster with Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@# Most of them wait most of the time.
	@RUST_TEST_THREADS=4 $(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh cargo test --locked -p limpet-e2e --features kube --test kube --config 'target."cfg(unix)".runner="e2e/tools/in-netns.sh"'

e2e-envoy-gateway: envoy-gateway wasm module test-cli ## Limpet through a genuine Envoy Gateway: make e2e-envoy-gateway ENVOY_GATEWAY=<binary>
	@echo "Testing through Envoy Gateway with Envoy $(ENVOY_VERSION), both builds of the filter (2 minutes the first time)"
	@$(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-envoy-gateway.sh e2e/tools/with-kube.sh cargo test --locked -p limpet-e2e --features envoy-gateway --test envoy-gateway --config 'target."cfg(unix)".runner="e2e/tools/in-netns.sh"'

# Whether there is one, before minutes are spent on building the rest.
envoy-gateway:
	@e2e/tools/with-envoy-gateway.sh true

# Not among `make test`: istiod is nothing that is fetched here.
e2e-istio: istiod wasm module test-cli ## Limpet in a real Istio: make e2e-istio ISTIOD=<pilot-discovery>
	@echo "Testing in Istio with Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@$(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-istiod.sh e2e/tools/with-kube.sh cargo test --locked -p limpet-e2e --features istio --test istio --config 'target."cfg(unix)".runner="e2e/tools/in-netns.sh"'

istiod:
	@e2e/tools/with-istiod.sh true

demo: wasm module ## A signed session, step by step in the terminal; then it serves until Ctrl-C (DEMO=once: ends after the walk; FILTER=module)
	@echo "Starting the demo (about 1 minute the first time)"
	@# The tools alone: the controller's dependencies would take minutes.
	@cargo build --locked -p limpet --no-default-features --target-dir $(cargo_target)/tools
	@cargo build --locked -p limpet-e2e --bin demo
	@DEMO=$(DEMO) LIMPET_BIN=$(cargo_target)/tools/debug/limpet $(call with_envoy,$(ENVOY_VERSION)) $(cargo_target)/debug/demo

demo-kube: wasm module test-cli ## The controller in a Kubernetes cluster, step by step in the terminal; then it serves until Ctrl-C (DEMO=once, FILTER=module)
	@echo "Starting the demo in a cluster (4 minutes more the first time: the API server is built)"
	@cargo build --locked -p limpet-e2e --features kube --bin demo-kube
	@DEMO=$(DEMO) $(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh e2e/tools/in-netns.sh $(cargo_target)/debug/demo-kube

.PHONY: docs
docs: ## The documentation as a site, in dist/site (3 minutes more the first time: mdBook is built)
	@e2e/tools/docs.sh

bench: build ## What the filter costs: native code, then CPU per request of a whole Envoy
	@echo "Measuring (about 5 minutes; leave the machine alone meanwhile)"
	cargo bench --locked -p limpet-core
	@# Every hook that the SDK exports, as a filter has that does not care.
	@CARGO_TARGET_WASM32_WASIP1_LINKER=rust-lld e2e/tools/wasm-target.sh cargo build --locked -p limpet-bench-noop --profile wasm --target wasm32-wasip1
	@cp $(cargo_target)/wasm32-wasip1/wasm/limpet_bench_noop.wasm dist/bench-noop.wasm
	@cargo build --locked --release -p limpet-e2e --bin bench
	@$(call with_envoy,$(ENVOY_VERSION)) $(cargo_target)/release/bench

bench-controller: wasm cli ## What the controller costs with 500, 5,000 and 20,000 rules: time, memory, and what is sent
	@echo "Measuring (about 10 minutes, and 5 more the first time; leave the machine alone meanwhile)"
	@LIMPET_FILTER=wasm LIMPET_WASM=dist/limpet.wasm LIMPET_BIN=$(cargo_target)/release/limpet e2e/tools/with-kube.sh cargo bench --locked -p limpet-e2e --features kube --bench controller --config 'target."cfg(unix)".runner="e2e/tools/in-netns.sh"'

clean: ## Remove what was built; what was fetched stays in .tools
	cargo clean
	rm -rf dist .run
