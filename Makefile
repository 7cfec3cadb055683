# ENVOY_VERSION: the Envoy of `make e2e` and the demos. FILTER: the build of the filter, wasm or module. SPLITS: how the
# tests lead sessions of splits, routes or specifier (FILTER=module). DEMO=once: a demo ends after its walk.
# ENVOY_GATEWAY: the binary for `make e2e-envoy-gateway`. RUNS: how often `make fuzz` runs each target. SUITE: more
# options of the conformance suite, such as -run-test=NAME. MINUTES: how long `make chaos` is. SEED, MUTANTS and PART:
# which changes `make mutants` tries, how many, and of which sources. For `make bench`: ROUNDS makes it shorter, BENCH
# is --filters, --scale, --counting or --workers (workers, memory and pushes) for a part of it, and FORMER a directory
# with both builds of the filter of another commit. For `make bench-controller`: PART and SIZES are what is measured,
# and PEER is an Envoy Gateway to measure beside. For `make release`, ARCHES are the machines.
ENVOY_VERSION ?= 1.40.0
ARCHES ?= x86_64 aarch64
FILTER ?= wasm
SPLITS ?= routes
DEMO ?=
SUITE ?=
RUNS ?= 1000000
SEED ?= 1
MUTANTS ?= 24
MINUTES ?=
FORMER ?=
ROUNDS ?=
BENCH ?=
PART ?=
SIZES ?=
PEER ?=
# The e2e targets run only the tests whose name contains this. Not taken from the environment, where a variable of this
# name would leave tests out of `make test`.
TEST :=
export ENVOY_GATEWAY

# The Envoys of `make e2e-matrix`: the newest patch of each minor version in the Python package index, whose 1.38.3 is
# built without wasm. Where func-e reaches its server, every release works.
WASM_VERSIONS ?= 1.36.4 1.37.0 1.38.2 1.39.3 1.40.0
MODULE_VERSIONS ?= 1.38.3 1.39.3 1.40.0

# The last Envoy that loads dynamic modules but does not let them steer.
too_old := 1.37.0

cargo_target := $(or $(CARGO_TARGET_DIR),target)
# One set of crates and features for whatever runs tests, so that each dependency is compiled once for all of them.
everything := --workspace --exclude limpet-bench-noop --all-features
wasm_crates := -p limpet-proxy-wasm -p limpet-bench-noop
# The last command of a recipe. With `exec`, because make passes SIGTERM on to its child only: a shell between the two
# would end, and leave its own child.
with_envoy = LIMPET_FILTER=$(FILTER) LIMPET_SPLITS=$(SPLITS) exec e2e/tools/with-envoy.sh $(1)
# Tests use a debug build of the command. An optimised build takes minutes, because of the controller's dependencies.
with_test_cli = LIMPET_BIN=$(cargo_target)/debug/limpet $(1)
# On a node the command runs in images that have no library, as the shipped one.
static_cli := $(cargo_target)/static/limpet
with_static_cli = LIMPET_BIN=$(static_cli) $(1)
test_e2e = e2e/tools/test-named.sh "$(TEST)" cargo test --locked $(everything)
# The end-to-end tests of what differs between releases of Envoy: the chain, discovery, protocols and counters.
differs := deployments:: ecds:: envoy_configs:: failover:: forged_headers:: internal_redirects:: observability:: \
	outputs:: protocols:: splits:: vm_memory::
# The controller's tests of what each build of the filter has code of its own for: secrets, reports and pushed rules.
by_build := failures::keyless fences:: keyring:: rebalance:: revoked_keys:: sessions::
# How cargo runs the tests: they get this signal when cargo ends, which ends by a signal without ending them.
run_by = --config 'target."cfg(unix)".runner=["setpriv", "--pdeathsig", $(1)]'
tied = $(call run_by,"KILL")
in_netns = $(call run_by,"TERM"$(comma) "$(CURDIR)/e2e/tools/in-netns.sh")
in_node = $(call run_by,"TERM"$(comma) "$(CURDIR)/e2e/tools/in-node.sh")
comma := ,

MAKEFLAGS += --no-print-directory
ifneq ($(and $(TEST),$(filter test,$(MAKECMDGOALS))),)
$(error TEST is for asan, e2e and e2e-*; `make test` runs all)
endif

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build wasm module cli schema golden descriptors chart manifests check hooks msrv test test-host test-cli
.PHONY: images programs release released release-check e2e e2e-images e2e-matrix e2e-kube e2e-node e2e-istio-node node
.PHONY: cluster
.PHONY: test-all istio-node quick e2e-oldest e2e-kube-wasm
.PHONY: e2e-browser browser e2e-monitoring
.PHONY: conformance chaos
.PHONY: static-cli
.PHONY: e2e-envoy-gateway envoy-gateway e2e-istio istiod
.PHONY: demo demo-kube asan fuzz mutants bench bench-instructions bench-controller clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: wasm module cli ## Build the filter, dist/limpet.wasm and dist/liblimpet.so, and the command, dist/limpet

wasm:
	@e2e/tools/build-wasm.sh

module:
	@e2e/tools/build-module.sh

cli:
	@echo "Building the limpet command (about 4 minutes the first time)"
	@e2e/tools/build-command.sh dist/limpet --release

images: build ## Make the images that are shipped: dist/images, and in podman, buildah or docker
	@e2e/tools/images.sh

release: released ## Make what is released: archives, images, chart, SBOMs and digests in dist/release (ARCHES=x86_64)
	@cat dist/release/SHA256SUMS

programs: wasm
	@echo "Building the limpet command and the module for $(ARCHES) (about 5 minutes each the first time)"
	@for arch in $(ARCHES); do \
		ARCH=$$arch e2e/tools/build-module.sh dist/$$arch/liblimpet.so && \
		ARCH=$$arch e2e/tools/build-command.sh dist/$$arch/limpet --release || exit 1; \
	done

released: programs
	@ARCHES="$(ARCHES)" e2e/tools/images.sh --archives >/dev/null
	@ARCHES="$(ARCHES)" e2e/tools/release.sh

release-check: ## Make the release of the last commit in two directories, and compare the digests (40 minutes)
	@e2e/tools/release-check.sh

test-cli:
	@echo "Building the limpet command for tests (about 2 minutes the first time)"
	@cargo test --locked $(everything) --test cli --no-run

static-cli:
	@echo "Building the limpet command for images of tests (about 4 minutes the first time)"
	@e2e/tools/build-command.sh $(static_cli)

schema: ## Write the JSON Schema of the configuration again
	@echo "Writing filter/core/schema (1 minute the first time)"
	@UPDATE_SCHEMA=1 cargo test --locked -p limpet-core --test schema -- --exact the_schema_is_what_the_types_say

descriptors: ## Write the descriptors of Envoy's protocol buffers again
	@echo "Writing controller/outputs/src/descriptors.binpb (2 minutes the first time)"
	@UPDATE_DESCRIPTORS=1 cargo test --locked -p limpet-outputs --test descriptors

golden: ## Write the golden cases and docs/reference/commands.md again
	@UPDATE_GOLDEN=1 cargo test --locked -q -p limpet -p limpet-core --test golden --test exchanges && \
	UPDATE_GOLDEN=1 cargo test --locked -q -p limpet --test pages -- commands:: && \
	git status --short controller/tests/golden filter/core/tests/golden docs/reference/commands.md

chart: ## Check the Helm chart, its golden files and the manifests that are made of it: TEST=name
	@echo "Testing the chart with Helm (1 minute the first time, and 3 more to build Helm)"
	@HELM=$$(e2e/tools/helm.sh) && export HELM && $(test_e2e) --test chart

manifests: ## Write the manifests for kustomize and the chart's golden files again, from controller/deploy/chart
	@HELM=$$(e2e/tools/helm.sh) UPDATE_GOLDEN=1 && export HELM UPDATE_GOLDEN && \
	$(test_e2e) --test chart && \
	git status --short controller/deploy e2e/tests/chart docs/reference/chart-values.md

check: ## Check the format, clippy, what Rust the dependencies need, licences, and advisories if reachable
	@echo "Checking format, lints and dependencies (5 minutes the first time)"
	cargo fmt --all --check
	cargo clippy --locked $(everything) --exclude limpet-proxy-wasm --all-targets -- -D warnings
	cargo clippy --locked $(everything) --exclude limpet-proxy-wasm --test '*' -- -D warnings
	@# The tools without the controller, as in the demo.
	cargo clippy --locked -p limpet --no-default-features -- -D warnings
	e2e/tools/rust-target.sh wasm32-wasip1 cargo clippy --locked $(wasm_crates) --target wasm32-wasip1 -- -D warnings
	e2e/tools/msrv.sh --dependencies
	e2e/tools/deny.sh

quick: ## Check the format, and run clippy and host tests of the crates with uncommitted changes
	@e2e/tools/pre-commit.sh --test

hooks: ## Install a git hook that checks the format and runs clippy on changed crates before a commit
	@e2e/tools/hooks.sh

msrv: ## Check that the oldest Rust that Cargo.toml names compiles the workspace
	@e2e/tools/msrv.sh

test: ## Run every test, end to end on Envoy 1.40.0 and 1.36.4 and in a Kubernetes cluster included
	@exec e2e/tools/parts.sh $(parts)

parts := \
	"without an Envoy: test-host" \
	"wasm filter, Envoy 1.40.0: e2e ENVOY_VERSION=1.40.0 FILTER=wasm" \
	"module, Envoy 1.40.0: e2e ENVOY_VERSION=1.40.0 FILTER=module" \
	"module, splits by a specifier: e2e ENVOY_VERSION=1.40.0 FILTER=module SPLITS=specifier TEST=split" \
	"wasm filter, Envoy 1.36.4, what differs: e2e-oldest" \
	"chart: chart" \
	"controller in a Kubernetes cluster, module: e2e-kube ENVOY_VERSION=1.40.0 FILTER=module" \
	"controller, wasm filter, keys and counts: e2e-kube-wasm"

# What a release needs: all that runs without a person. What this machine lacks is left out, and the table says so.
test-all: ## Run everything: each supported Envoy, a node, images, a browser, Istio, Envoy Gateway, chaos (hours)
	@exec e2e/tools/parts.sh "format, lints, dependencies: check" "oldest Rust: msrv" "workflows: workflows" $(parts) \
	"every supported Envoy: e2e-matrix" \
	"controller in a Kubernetes cluster, wasm filter: e2e-kube FILTER=wasm" \
	"images: e2e-images" \
	"browser, wasm filter [browser]: e2e-browser FILTER=wasm" \
	"browser, module [browser]: e2e-browser FILTER=module" \
	"Kubernetes node [node]: e2e-node" \
	"Istio [istiod]: e2e-istio" \
	"Istio's agent on a node [istio-node]: e2e-istio-node" \
	"Envoy Gateway [envoy-gateway]: e2e-envoy-gateway" \
	"dashboard and alerts: e2e-monitoring" \
	"conformance, wasm filter [node]: conformance FILTER=wasm" \
	"conformance, module [node]: conformance FILTER=module" \
	"chaos, wasm filter [node]: chaos FILTER=wasm MINUTES=2" \
	"chaos, module [node]: chaos FILTER=module MINUTES=2" \
	"AddressSanitizer: asan" \
	"instructions: bench-instructions" \
	"documentation as a site: docs"

test-host:
	@echo "Running the tests that need no Envoy (5 minutes the first time)"
	@# Some tests wait.
	RUST_TEST_THREADS=4 cargo test --locked $(everything)
	python3 filter/core/tests/verify_vectors.py
	python3 filter/core/tests/verify_keyring_vectors.py

e2e: wasm module test-cli ## Run the end-to-end tests on one Envoy: ENVOY_VERSION=1.38.3 FILTER=module TEST=name
	@e2e/tools/build-panicking-module.sh
	@e2e/tools/build-other-module.sh
	@echo "Testing the $(FILTER) filter end to end on Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@# Tests wait half of their time.
	@FUNC_E=$$(e2e/tools/func-e.sh) && HAPROXY=$$(e2e/tools/haproxy.sh) && \
	ENVOY_TOO_OLD=$$(e2e/tools/envoy.sh $(too_old)) && export FUNC_E HAPROXY ENVOY_TOO_OLD && \
	RUST_TEST_THREADS=8 $(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) $(test_e2e) --test e2e $(tied)

e2e-oldest: ## Run the end-to-end tests of what differs between releases, on the oldest Envoy with the wasm filter
	@exec $(MAKE) e2e ENVOY_VERSION=1.36.4 FILTER=wasm TEST="$(differs)"

e2e-matrix: ## Run the end-to-end tests on every supported minor version of Envoy (2 minutes each)
	@failed=; \
	for run in $(WASM_VERSIONS:%=%:wasm) $(MODULE_VERSIONS:%=%:module); do \
		setpriv --pdeathsig TERM $(MAKE) e2e ENVOY_VERSION=$${run%:*} FILTER=$${run#*:} || failed="$$failed $$run"; \
	done; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed"; exit 1; fi

e2e-kube: wasm module test-cli ## Run the controller's tests with a genuine API server: TEST=name
	@echo "Testing the controller in a Kubernetes cluster with Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@# Most tests wait most of the time.
	@RUST_TEST_THREADS=14 $(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	e2e/tools/with-definitions.sh $(test_e2e) --test kube $(in_netns) -- --skip monitoring::

e2e-kube-wasm: ## Run the controller's tests of what the two builds of the filter do each in their own way, with wasm
	@exec $(MAKE) e2e-kube FILTER=wasm TEST="$(by_build)"

# Not part of `make test`, because nothing else here needs Prometheus, which takes minutes to build.
e2e-monitoring: wasm module test-cli ## Run the dashboard and the alerts in a Prometheus: FILTER=module TEST=name
	@echo "Testing the dashboard and the alerts with the $(FILTER) filter (2 minutes the first time)"
	@PROMETHEUS_BIN=$$(e2e/tools/prometheus.sh) && export PROMETHEUS_BIN && \
	$(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	e2e/tools/with-definitions.sh e2e/tools/test-named.sh "$(or $(TEST),monitoring::)" cargo test --locked $(everything) \
	--test kube $(in_netns)

# Not part of `make test`, because it needs root.
e2e-node: node wasm module static-cli ## Run the tests on a genuine Kubernetes node, as root: TEST=name
	@# The backends of its pods are built with it.
	@cargo test --locked $(everything) --test node --no-run
	@echo "Testing on a Kubernetes node with Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@# The tests restart what they share.
	@HELM3=$$(e2e/tools/helm.sh 3) && CERT_MANAGER_CRDS=$$(e2e/tools/crds.sh cert-manager) && \
	PROMETHEUS_CRDS=$$(e2e/tools/crds.sh prometheus-operator) && export HELM3 CERT_MANAGER_CRDS PROMETHEUS_CRDS && \
	RUST_TEST_THREADS=1 $(call with_static_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	e2e/tools/with-node.sh $(test_e2e) --test node --test first-page $(in_node)

e2e-istio-node: node wasm module static-cli ## Run the tests of Istio with its own agent on a node, as root: TEST=name
	@cargo test --locked $(everything) --test istio-node --no-run
	@echo "Testing Istio's agent on a Kubernetes node with Envoy $(ENVOY_VERSION) (4 minutes the first time)"
	@RUST_TEST_THREADS=1 $(call with_static_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	e2e/tools/with-node.sh e2e/tools/with-definitions.sh e2e/tools/with-istio-node.sh \
	$(test_e2e) --test istio-node $(in_node)

e2e-images: released ## Run the tests of what is released with a genuine registry, and cosign: TEST=name
	@echo "Testing what is released (2 minutes the first time, and 5 more to build cosign)"
	@OCI_BIN=$$(e2e/tools/registry.sh) && COSIGN=$$(e2e/tools/cosign.sh) && HELM=$$(e2e/tools/helm.sh) && \
	export OCI_BIN COSIGN HELM && LIMPET_RELEASE=dist/release LIMPET_IMAGES=dist/images \
	LIMPET_BIN=$(CURDIR)/dist/$(shell uname -m)/limpet LIMPET_WASM=$(CURDIR)/dist/limpet.wasm \
	exec $(test_e2e) --test images $(in_netns)

# Not part of `make test`, because nothing else here needs a browser, which is 440 MB.
e2e-browser: browser wasm module test-cli ## Run the tests with a real browser, Chromium: FILTER=module TEST=name
	@echo "Testing the $(FILTER) filter with a browser on Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@# Each test has a browser of its own.
	@CHROMIUM=$$(e2e/tools/chromium.sh chromium) && CHROMEDRIVER=$$(e2e/tools/chromium.sh chromedriver) && \
	export CHROMIUM CHROMEDRIVER && RUST_TEST_THREADS=2 \
	$(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	$(test_e2e) --test browser --test debug-page $(in_netns)

# Says what this machine lacks before minutes go into building the rest.
browser:
	@e2e/tools/chromium.sh chromium >/dev/null

cluster: node wasm module static-cli ## Start a Kubernetes cluster of one node, as root, until Ctrl-C or SIGTERM
	@cargo build --locked -p limpet-e2e --features node --bin backend --bin cluster
	@$(call with_static_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh e2e/tools/with-node.sh \
	e2e/tools/in-node.sh $(cargo_target)/debug/cluster

conformance: node wasm module static-cli ## Run the Gateway API's conformance suite on a node, as root: FILTER=module
	@cargo build --locked -p limpet-e2e --features node --bin backend --bin conformance
	@$(call with_static_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh e2e/tools/with-node.sh \
	e2e/tools/with-conformance.sh e2e/tools/in-node.sh $(cargo_target)/debug/conformance $(SUITE)

chaos: node wasm module static-cli ## End pods and processes under 200 sessions, as root: FILTER=module MINUTES=2
	@cargo build --locked -p limpet-e2e --features node --bin backend --bin chaos
	@MINUTES=$(MINUTES) $(call with_static_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	e2e/tools/with-node.sh e2e/tools/in-node.sh $(cargo_target)/debug/chaos

# Says what this machine lacks before minutes go into building the rest.
node:
	@e2e/tools/node.sh >/dev/null

e2e-envoy-gateway: envoy-gateway wasm module test-cli ## Run the tests with Envoy Gateway: ENVOY_GATEWAY=<binary>
	@echo "Testing through Envoy Gateway with Envoy $(ENVOY_VERSION), both builds of the filter (2 minutes the first time)"
	@$(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-envoy-gateway.sh e2e/tools/with-kube.sh \
	$(test_e2e) --test envoy-gateway $(in_netns)

# Fails without an Envoy Gateway before minutes go into building the rest.
envoy-gateway:
	@e2e/tools/with-envoy-gateway.sh true

# Not part of `make test`, because the first build of istiod takes long.
e2e-istio: istiod wasm module test-cli ## Run the tests with Istio: ISTIOD=<pilot-discovery> TEST=name
	@echo "Testing in Istio with Envoy $(ENVOY_VERSION) (2 minutes the first time)"
	@$(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-istiod.sh e2e/tools/with-kube.sh \
	e2e/tools/with-definitions.sh $(test_e2e) --test istio $(in_netns)

# Says what this machine lacks for Istio's own agent.
istio-node: node istiod

istiod:
	@e2e/tools/with-istiod.sh true

demo: wasm module ## Show a session step by step, then serve until Ctrl-C; DEMO=once only shows it (FILTER=module)
	@echo "Starting the demo (about 1 minute the first time)"
	@# Without the controller, whose dependencies take minutes.
	@cargo build --locked -p limpet --no-default-features --target-dir $(cargo_target)/tools
	@cargo build --locked -p limpet-e2e --bin demo
	@DEMO=$(DEMO) LIMPET_BIN=$(cargo_target)/tools/debug/limpet \
	$(call with_envoy,$(ENVOY_VERSION)) $(cargo_target)/debug/demo

demo-kube: wasm module test-cli ## Show the controller in a cluster, then serve until Ctrl-C (DEMO=once, FILTER=module)
	@echo "Starting the demo in a cluster (4 minutes more the first time, to build the API server)"
	@cargo build --locked -p limpet-e2e --features kube --bin demo-kube
	@DEMO=$(DEMO) $(call with_test_cli,$(call with_envoy,$(ENVOY_VERSION))) e2e/tools/with-kube.sh \
	e2e/tools/in-netns.sh $(cargo_target)/debug/demo-kube

.PHONY: docs workflows
docs: ## Build the documentation as a site in dist/site
	@e2e/tools/docs.sh

workflows: ## Check the workflows of GitHub with actionlint, which Go builds (20 seconds the first time)
	@exec e2e/tools/actionlint.sh

asan: test-cli ## Run the end-to-end tests of the dynamic module with AddressSanitizer (10 minutes)
	@exec e2e/tools/asan.sh "$(TEST)"

fuzz: ## Run each fuzz target RUNS times with libFuzzer, and keep what it finds in its corpus
	@exec e2e/tools/fuzz.sh $(RUNS)

mutants: ## Change functions one at a time, and say which tests fail then: MUTANTS=4 PART=xds (10 minutes each)
	@EVERYTHING="$(everything)" exec python3 e2e/tools/mutants.py $(SEED) $(MUTANTS) $(PART)

bench: wasm module ## Measure what the filter costs, beside HAProxy and Envoy's own (ROUNDS=3 BENCH=--filters)
	@command -v h2load >/dev/null || { echo "expected h2load (Debian: nghttp2-client)"; exit 1; }
	@echo "Measuring (about 40 minutes, 11 with ROUNDS=3, a part of it with BENCH; run nothing else)"
	@# With every hook that the SDK exports, as in a filter that does not select them.
	@CARGO_TARGET_WASM32_WASIP1_LINKER=rust-lld e2e/tools/rust-target.sh wasm32-wasip1 \
	cargo build --locked -p limpet-bench-noop --profile wasm --target wasm32-wasip1
	@cp $(cargo_target)/wasm32-wasip1/wasm/limpet_bench_noop.wasm dist/bench-noop.wasm
	@cargo build --locked --release -p limpet-e2e --bin bench
	@HAPROXY=$$(e2e/tools/haproxy.sh) && export HAPROXY && ROUNDS=$(ROUNDS) FORMER=$(FORMER) \
	$(call with_envoy,$(ENVOY_VERSION)) $(cargo_target)/release/bench $(BENCH)
	@$(if $(ROUNDS)$(BENCH),,cargo bench --locked -p limpet-core)

bench-instructions: module ## Count the instructions of the filter's work, and say what grew (UPDATE_INSTRUCTIONS=1)
	@command -v valgrind >/dev/null || { echo "expected valgrind (Debian: valgrind)"; exit 1; }
	@cargo build --locked -p limpet-bench-instructions --profile module
	@cc -O2 -Wall -Werror -rdynamic -o $(cargo_target)/module/bench-host e2e/bench/instructions/host.c -ldl
	@$(cargo_target)/module/limpet-bench-instructions $(cargo_target)/module/bench-host dist/liblimpet.so

bench-controller: wasm module cli ## Measure the controller: PART=routes SIZES="500 2000", PEER=<envoy-gateway binary>
	@echo "Measuring (all parts: about 40 minutes, and 5 more the first time; run nothing else meanwhile)"
	@$(if $(PEER),ENVOY_GATEWAY=$(PEER)) LIMPET_FILTER=wasm exec e2e/tools/with-envoy.sh $(ENVOY_VERSION) \
	$(if $(PEER),e2e/tools/with-envoy-gateway.sh) e2e/tools/with-kube.sh e2e/tools/with-definitions.sh \
	cargo bench --locked -p limpet-e2e --features kube --bench controller $(in_netns) -- \
	$(if $(PEER),peer,$(PART)) $(SIZES)

clean: ## Remove what was built, but not what was fetched into .tools
	cargo clean
	rm -rf dist .run
