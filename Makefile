# `make` alone shows what there is.

# Tests, demo and benchmark make namespaces and load eBPF programs. As an ordinary user
# cargo builds, and what it built runs under sudo.
ifneq ($(shell id -u),0)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = sudo -E
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = sudo -E
endif

# A build that CI checks is the one that Cargo.lock describes.
CARGO_FLAGS := $(if $(CI),--locked --config .ci/profile.toml)
# Rust may have been installed by this very make.
export PATH := $(PATH):$(HOME)/.cargo/bin

# A static libelf of newer systems than Debian 12 wants zstd too, and does not say so itself.
ifneq ($(findstring -lzstd,$(shell pkg-config --static --libs libelf 2>/dev/null)),)
export RUSTFLAGS := $(RUSTFLAGS) -C link-arg=-lzstd
endif

# Where `make install` puts things; packagers set DESTDIR.
export PREFIX ?= /usr/local
export DESTDIR ?=

# How long each fuzz target runs.
FUZZ_SECONDS ?= 60

.PHONY: help build demo demo-queues test lint unit model end-to-end kernel instructions docs fuzz bench install \
	uninstall deb install-build install-demo install-test clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: install-build ## Build target/release/europa
	cargo build $(CARGO_FLAGS) --release -p europa

demo: install-demo build ## Two tenants forward real traffic: pings, TCP, a kill, a table of figures
	@cargo run $(CARGO_FLAGS) --release -q -p europa-tests --bin demo

demo-queues: install-demo build ## Five slices share a port, drawn live beside ideal fair queueing
	@cargo run $(CARGO_FLAGS) --release -q -p europa-tests --bin demo queues

test: lint unit model kernel instructions end-to-end ## Check everything: format, lints, documentation, tests

# All in one profile, the one that users run unless CI checks, and always for the whole workspace:
# another selection of crates has other features of their libraries, and is built anew.
lint: install-build ## Check format, lints and documentation
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --release --workspace --no-deps --quiet

unit: install-test ## Run the tests of the crates
	cargo test $(CARGO_FLAGS) --release --workspace --lib --bins --examples
	cargo test $(CARGO_FLAGS) --release --workspace --exclude europa-tests --test '*'
	cargo test $(CARGO_FLAGS) --release --workspace --doc

# In a folder of its own: the flag would have everything built again.
model: install-build ## Check rings and grace periods under all interleavings of their users (loom)
	CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom" \
		cargo test $(CARGO_FLAGS) --release -p europa-pool -p europa-lookup --lib model

# One after the other, as they measure and share the machine's cores; those that only wait together.
end-to-end: install-test ## Run the tests with real namespaces and traffic
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
	@scripts/end-to-end $(CARGO_FLAGS) --release --workspace --no-fail-fast

# Verifiers of different kernels accept different things, and Debian's is the oldest that Europa runs on.
kernel: install-build ## Load the eBPF programs into Debian's own kernel, in QEMU
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
ifeq ($(shell uname -m),x86_64)
	@if scripts/install-deps kernel; then QEMU_SECONDS=300 scripts/kernel linux-image-amd64 load; \
	else echo "skipped: QEMU cannot be installed"; fi
else
	@echo "skipped: scripts/kernel boots kernels for x86_64 only"
endif

# Counts do not depend on the machine, but on the profile: bench/instructions.json has those of both.
instructions: install-test ## Compare the instructions of the hot loops with the committed ones
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
	target/release/europa-bench instructions --out target/instructions $(if $(WRITE),--write)

docs: install-build ## Generate docs/elements and docs/reference.md
	EUROPA_WRITE_DOCS=1 cargo test $(CARGO_FLAGS) --release -q --workspace --test reference

# Sanitizers would find nothing that Rust does not: what looks for panics needs the flags of a nightly
# compiler, which the stable one takes if it is told to bootstrap itself.
fuzz: install-build ## Fuzz what reads configurations: three targets, FUZZ_SECONDS (60) each
	command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz
	for target in configuration filter arguments; do \
		mkdir -p target/fuzz/corpus/$$target && \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none --target-dir target/fuzz $$target \
			target/fuzz/corpus/$$target fuzz/seeds/$$target -- -timeout=20 -max_len=2048 \
			-max_total_time=$(FUZZ_SECONDS) </dev/null || exit; \
	done

bench: build ## Measure Europa, Linux and XDP side by side: table, JSON and SVG
	cargo run $(CARGO_FLAGS) --release -p europa-bench

# Under sudo, what its user has built is installed.
install: $(if $(SUDO_USER),,build) ## Install below PREFIX (/usr/local): binary, manual, completions, unit
	@scripts/install

uninstall: ## Remove what `make install` has installed below PREFIX
	@scripts/install --remove

deb: build ## Build a Debian package, target/europa_VERSION_ARCH.deb
	@scripts/deb

install-build install-demo install-test:
	@scripts/install-deps $(@:install-%=%)

clean: ## Remove what was built
	cargo clean
