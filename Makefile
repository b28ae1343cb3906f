# `make` alone shows what there is.

# Tests, demo and benchmark make namespaces and load eBPF programs. As an ordinary user
# cargo builds, and what it built runs under sudo.
ifneq ($(shell id -u),0)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = sudo -E
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = sudo -E
endif

# A build that CI checks is the one that Cargo.lock describes.
CARGO_FLAGS := $(if $(CI),--locked)

.PHONY: help build demo test lint unit end-to-end bench install-deps clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: install-deps ## Build target/release/europa
	cargo build $(CARGO_FLAGS) --release -p europa

demo: build ## Two tenants forward real traffic: pings, TCP, a kill, a table of figures
	cargo run $(CARGO_FLAGS) --release -q -p europa-tests --bin demo

test: lint unit end-to-end ## Check everything: format, lints, documentation, tests

lint: install-deps ## Check format, lints and documentation
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --workspace --no-deps --quiet

unit: install-deps ## Run the tests that need no traffic
	cargo test $(CARGO_FLAGS) --workspace --exclude europa-tests

# One after the other: they measure, and share two cores.
end-to-end: install-deps ## Run the tests with real namespaces and traffic
	cargo build $(CARGO_FLAGS) -p europa
	cargo test $(CARGO_FLAGS) -p europa-tests -- --test-threads=1

bench: build ## Measure Europa, Linux and XDP side by side: table, JSON and SVG
	cargo run $(CARGO_FLAGS) --release -p europa-bench

install-deps: ## Install the Debian packages that are missing, saying which
	@scripts/install-deps

clean: ## Remove what was built
	cargo clean
