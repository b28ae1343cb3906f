# `make` alone shows what there is.

# Tests, demo and benchmark make namespaces and load eBPF programs. For an ordinary user cargo
# builds as that user and runs the programs under sudo.
ifneq ($(shell id -u),0)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = sudo -E
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = sudo -E
endif

# CI checks the build that Cargo.lock describes.
CARGO_FLAGS := $(if $(CI),--locked --config .ci/profile.toml)
# This make may have installed Rust itself.
export PATH := $(PATH):$(HOME)/.cargo/bin

# A static libelf of systems newer than Debian 12 also needs zstd, and its pkg-config does not say so.
ifneq ($(findstring -lzstd,$(shell pkg-config --static --libs libelf 2>/dev/null)),)
export RUSTFLAGS := $(RUSTFLAGS) -C link-arg=-lzstd
endif

# Where `make install` installs; packagers set DESTDIR.
export PREFIX ?= /usr/local
export DESTDIR ?=

# `make lint` checks the subjects of commits after this one.
WORDS_BASE ?= e58d0eb

# Settings of `make simulate`.
HISTORIES ?= 2000
SEED ?= 1
PLANT ?=

# Seconds for which each fuzz target runs, and the same for `make nightly`.
FUZZ_SECONDS ?= 60
NIGHTLY_FUZZ_SECONDS ?= 1800
NIGHTLY_HISTORIES ?= 100000
# Sequences with which `make nightly` compares the simulated with the real machine.
NIGHTLY_SEQUENCES ?= 1000
# Settings with which `make nightly` compares fast paths with their Linux.
NIGHTLY_RUNS ?= 2000
# What this kernel may lack (VRF, ESP, GRE, labels, most qdiscs) runs in Debian's own one: settings
# with which `make nightly` compares fast paths with their Linux there, each once, and the tests of
# virtual private networks. QEMU imitates slow processors.
NIGHTLY_FOREIGN_RUNS ?= 450
# Packages of kernels on which `make nightly` loads the eBPF programs, beside that of `make kernel`.
# A package that cannot be downloaded is skipped.
NIGHTLY_KERNELS ?= linux-image-rt-amd64 $(shell apt-cache search --names-only '^linux-image-6[.][0-9.]+[+]deb[0-9]+-amd64$$' 2>/dev/null \
	| cut -d ' ' -f 1 | sort -V | tail -n 1)

.PHONY: help build demo demo-queues test lint unit model simulate end-to-end kernel instructions nightly docs site fuzz bench install \
	uninstall deb static dist install-build install-demo install-test clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: install-build ## Build target/release/europa
	cargo build $(CARGO_FLAGS) --release -p europa

demo: install-demo build ## Two tenants forward real traffic: pings, TCP, a kill, a table of figures
	@cargo run $(CARGO_FLAGS) --release -q -p europa-tests --bin demo

demo-queues: install-demo build ## Five slices share a port, drawn live beside ideal fair queueing
	@cargo run $(CARGO_FLAGS) --release -q -p europa-tests --bin demo queues

test: lint unit model simulate kernel instructions end-to-end ## Check everything: format, lints, documentation, tests

# One profile for all, and always the whole workspace: another selection of crates enables other
# features of libraries, which are then built again.
lint: install-build ## Check format, lints, documentation and language
	scripts/words --self-test
	scripts/words --base $(WORDS_BASE)
	scripts/site --check
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --release --workspace --no-deps --quiet

unit: install-test ## Run the tests of the crates
	cargo test $(CARGO_FLAGS) --release --workspace --lib --bins --examples
	cargo test $(CARGO_FLAGS) --release --workspace --exclude europa-tests --test '*'
	cargo test $(CARGO_FLAGS) --release --workspace --doc

# In its own folder: the flag would cause a rebuild of everything else.
model: install-build ## Check rings and grace periods under all interleavings of their users (loom)
	CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom" \
		cargo test $(CARGO_FLAGS) --release -p europa-pool -p europa-lookup --lib model

# Tests that measure run one at a time; tests that mostly wait run together.
end-to-end: install-test ## Run the tests with real namespaces and traffic
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
	@scripts/end-to-end $(CARGO_FLAGS) --release --workspace --no-fail-fast

# Verifiers of different kernels accept different programs; Debian's kernel is the oldest supported one.
kernel: install-build ## Load the eBPF programs into Debian's own kernel, in QEMU
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
ifeq ($(shell uname -m),x86_64)
	@if scripts/install-deps kernel; then QEMU_SECONDS=300 scripts/kernel linux-image-amd64 load; \
	else echo "skipped: QEMU cannot be installed"; fi
else
	@echo "skipped: scripts/kernel boots kernels for x86_64 only"
endif

simulate: install-build ## Run HISTORIES (2000) of control on a simulated machine, from SEED (1); PLANT=list
	@cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
	@HISTORIES=$(HISTORIES) SEED=$(SEED) PLANT=$(PLANT) target/release/simulate

# Counts depend on the profile, not on the machine: bench/instructions.json has those of both profiles.
instructions: install-test ## Compare the instructions of the hot loops with the committed ones
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
	target/release/europa-bench instructions --out target/instructions $(if $(WRITE),--write)

# The site is built without a network, once mdBook is installed.
site: ## Build the pages of docs/ as a site with a search, target/site
	@command -v mdbook >/dev/null || cargo install mdbook --locked --version '^0.5' --no-default-features --features search
	@scripts/site

docs: install-build ## Generate docs/elements, docs/cli.md, docs/reference.md, docs/api-types.md, and tables of docs/reference and docs/api.md
	cargo build $(CARGO_FLAGS) --release --workspace --bins --tests
	EUROPA_WRITE_DOCS=1 cargo test $(CARGO_FLAGS) --release -q --workspace --test reference

# cargo-fuzz needs flags of a nightly compiler; the stable one accepts them with RUSTC_BOOTSTRAP.
# Sanitizers add nothing to what Rust checks itself.
fuzz: install-build ## Fuzz the parsers of configurations, RSVP and XDP objects: five targets, FUZZ_SECONDS (60) each
	command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz
	for target in configuration filter arguments rsvp xdp; do \
		mkdir -p target/fuzz/corpus/$$target && \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none --target-dir target/fuzz $$target \
			target/fuzz/corpus/$$target fuzz/seeds/$$target -- -timeout=20 -max_len=$$([ $$target = xdp ] && echo 32768 || echo 2048) \
			-max_total_time=$(FUZZ_SECONDS) </dev/null || exit; \
	done

# Each kernel in its own run, so that one that fails does not hide the others; make fails at the end.
nightly: install-test ## Run what takes long: 100,000 histories, fast paths beside Linux, long pages of the docs, fuzzing, the eBPF programs on further kernels
	$(MAKE) simulate HISTORIES=$(NIGHTLY_HISTORIES)
	EUROPA_DIFFERENTIAL=$(NIGHTLY_RUNS) cargo test $(CARGO_FLAGS) --release --workspace \
		--test slow_differential -- --test-threads=1 --nocapture
	EUROPA_CONTRACT=$(NIGHTLY_SEQUENCES) cargo test $(CARGO_FLAGS) --release --workspace \
		--test contract -- --test-threads=1 --nocapture
	cargo test $(CARGO_FLAGS) --release --workspace --test together i3 -- --ignored --nocapture
	HISTORIES=2000 cargo test $(CARGO_FLAGS) --release --workspace --test takeover
	cargo test $(CARGO_FLAGS) --release --workspace --test cluster_moves -- --ignored --test-threads=1 --nocapture
	cargo test $(CARGO_FLAGS) --release --workspace --test watchdog -- --ignored --nocapture
	cargo test $(CARGO_FLAGS) --release --workspace --test together pages::nightly -- --ignored --test-threads=1
	$(MAKE) fuzz FUZZ_SECONDS=$(NIGHTLY_FUZZ_SECONDS)
	$(MAKE) kernel
ifeq ($(shell uname -m),x86_64)
	EUROPA_PATIENCE=5 EUROPA_KIND=features EUROPA_DIFFERENTIAL=$(NIGHTLY_FOREIGN_RUNS) \
		EUROPA_BLOCK=$(NIGHTLY_FOREIGN_RUNS) QEMU_SECONDS=7200 \
		scripts/kernel linux-image-amd64 slow_differential slow_vpn
	@failed=; for package in $(NIGHTLY_KERNELS); do \
		echo "kernel $$package"; \
		QEMU_SECONDS=600 scripts/kernel $$package load || failed="$$failed $$package"; \
	done; [ -z "$$failed" ] || { echo "failed on:$$failed"; exit 1; }
endif

bench: build ## Measure Europa, Linux and XDP side by side: table, JSON and SVG
	cargo run $(CARGO_FLAGS) --release -p europa-bench

# Under sudo, the build of the calling user is installed.
install: $(if $(SUDO_USER),,build) ## Install below PREFIX (/usr/local): binary, manual, completions, unit
	@scripts/install

uninstall: ## Remove all files that `make install` has installed
	@scripts/install --remove

deb: build ## Build a Debian package, target/europa_VERSION_ARCH.deb
	@scripts/deb

# The C library becomes a part of the binary, so everything is linked anew.
static: install-build ## Build a binary that needs no library, target/static/release/europa
	cargo rustc $(CARGO_FLAGS) --release --target-dir target/static -p europa --bin europa -- -C target-feature=+crt-static

dist: deb static ## Put package, static binary and checksums into target/dist
	@scripts/dist

install-build install-demo install-test:
	@scripts/install-deps $(@:install-%=%)

clean: ## Remove all build results
	cargo clean
