# The front of the repository. Each target calls cargo, a script or an xtask; nothing is decided here.

CARGO ?= cargo
SHELL := bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# Empty: a fresh folder that is removed at the end.
DATA ?=
# What `make services-up` started.
SERVICES := target/services
# How many runs `make sim` makes.
SEEDS ?= 2000
# What `make sim-mailboxes` simulates, and where it draws.
RATES ?= 1000
HOURS ?= 24
SEED ?= 1
PLOT ?= docs/mailbox-flapping.svg
# What `make bench` measures, with which arguments, in which profile.
BENCH ?= door
ARGS ?=
PROFILE ?= release
# How `build` comes by the binary. CI takes the one that the tests were built with: without their features most of it would be
# built a second time.
BINARY_BUILD ?= build -p mailrail
# Where it is then. For the shell: a recipe expands it.
BINARY = $${CARGO_TARGET_DIR:-target}/debug/mailrail
# What a check of a binary looks at: the one that MAILRAIL names, or that one.
named = MAILRAIL="$${MAILRAIL:-$(BINARY)}"

with_data = data="$(DATA)"; [ -n "$$data" ] || { data=$$(mktemp -d); trap 'rm -rf "$$data"' EXIT; }

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the mailrail binary
	$(CARGO) $(BINARY_BUILD)

.PHONY: run
run: build ## Run everything in one process with a demo, until Ctrl-C (DATA=folder keeps what it wrote)
	@$(with_data); "$(BINARY)" dev --demo --data "$$data"

.PHONY: demo
demo: build ## Run the demo once; the last line is JSON; fails unless the books balance
	@$(with_data); "$(BINARY)" dev --demo --exit --data "$$data"

.PHONY: test
test: ## Run all tests, on real Kafka, Postgres and Redis that it starts and stops
	$(CARGO) test --workspace --no-run
	MAILRAIL_TEST_REQUIRE=1 tests/services/with $(CARGO) test --workspace

.PHONY: test-long
test-long: ## Run the fault tests of deliver at full length: 100 kills, a million held deliveries (over an hour)
	$(CARGO) test -p mailrail --test it --no-run
	MAILRAIL_TEST_REQUIRE=1 MAILRAIL_TEST_LONG=1 tests/services/with $(CARGO) test -p mailrail --test it -- --test-threads=1 --nocapture

.PHONY: sim
sim: ## Simulate the delivery protocol under faults, and each of its rules switched off (SEEDS, SEED); the last line is JSON
	@$(CARGO) run -q --profile $(PROFILE) -p mailrail-sim -- journal --seeds $(SEEDS) --seed $(SEED)

.PHONY: sim-mailboxes
sim-mailboxes: ## Simulate how mailbox widths change over a day (RATES, HOURS, SEED); the last line is JSON; draws PLOT
	@$(CARGO) run -q -p mailrail-sim -- mailboxes --rates $(RATES) --hours $(HOURS) --seed $(SEED) --plot $(PLOT)

.PHONY: sim-autoscale
sim-autoscale: ## Simulate how the chart scales match and deliver, with recorded lag and the figures of its values.yaml (ARGS); the last line is JSON
	@$(CARGO) run -q --profile $(PROFILE) -p mailrail-sim -- autoscale $(ARGS)

.PHONY: record-lag
record-lag: ## Record lag of real roles on a real Kafka for sim-autoscale, into crates/sim/data/lag (20 minutes; ARGS="--only NAME")
	@$(CARGO) build --profile $(PROFILE) -p mailrail -p mailrail-bench
	@tests/services/with "$${CARGO_TARGET_DIR:-target}/$(PROFILE:dev=debug)/mailrail-bench" lag $(ARGS)

.PHONY: bench
bench: ## Measure a part beside a floor, on real Kafka, Postgres and Redis (BENCH=door, deliver, takeover, match or match-stage); the last line is JSON
	@$(CARGO) build --profile $(PROFILE) -p mailrail -p mailrail-bench
	@tests/services/with "$${CARGO_TARGET_DIR:-target}/$(PROFILE:dev=debug)/mailrail-bench" $(BENCH) $(ARGS)

.PHONY: arrows
arrows: ## Check which crate imports which
	$(CARGO) xtask arrows

.PHONY: tidy
tidy: ## Check file headers, sizes, names and links
	$(CARGO) xtask tidy

.PHONY: lint
lint: ## Check format and clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) check -q -p mailrail

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: gen
gen: build ## Write docs/reference from the code
	$(named) $(CARGO) xtask gen

.PHONY: gen-check
gen-check: build ## Say whether docs/reference is as the code says
	$(named) $(CARGO) xtask gen --check

.PHONY: chart
chart: build ## Check the Helm chart, the Prometheus rules, the dashboards and the compose file without a cluster; the last line is JSON
	@$(named) tests/chart/run

.PHONY: chart-write
chart-write: ## Write what is generated of the chart and the dashboards from values.yaml, docs/reference and deploy/grafana/source
	@tests/chart/run write

.PHONY: test-kubernetes
test-kubernetes: build ## Install, scale, upgrade and remove the chart under load in a real control plane with KEDA (needs Go; builds 15 minutes once); the last line is JSON
	@tests/kubernetes/build.sh >/dev/null
	@$(named) tests/services/with tests/kubernetes/run

.PHONY: image-check
image-check: build ## Build deploy/Dockerfile without a registry and look at the image (as root on Debian); the last line is JSON
	@$(named) tests/image/check

.PHONY: check
check: lint arrows tidy test gen-check chart demo ## Everything that CI runs

.PHONY: services-up
services-up: ## Start Kafka, Postgres and Redis and keep them; prints their addresses
	tests/services/up $(SERVICES)

.PHONY: services-down
services-down: ## End what services-up started
	tests/services/down $(SERVICES)
