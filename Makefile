# make run    what running needs set up, and the main job shown on a real Kafka broker
# make setup  the same set-up alone: .venv, with the native core
# make demo   an endless sample stream, a worker, and the pages of the service; prints their address; Ctrl-C ends it
# make test   what tests need as well, and all tests; the wide sweeps by samples
# make test-full  all tests, all of the wide sweeps, ten times the examples of the property tests
# make test-cluster  the tests on three Kafka nodes
# make test-spark  the tests on Apache Spark
# make lint   all lint rules, the formats, strict types, clippy
# make bench  figures beside peers (benchmarks/README.md)
# make quality  whether the verdicts are right, beside peers: writes benchmarks/quality.md (STREAM_DEDUP_DATA: the texts);
#             ARGS="--only sweep --quick": a minute's search for cliffs
# make fuzz   200,000 lines that nobody would write through filter (ARGS="--lines 5000 --seed 3"), or records through
#             decoding and fingerprinting, and through a worker (ARGS="--records 1000000 --worker 20000"), or a million
#             texts by the native core and by the definition (ARGS=--texts), or JSON values and pages by both
#             (ARGS="--values --pages")
# make simulate  10,000 schedules of several workers in virtual time (ARGS="--seeds 10000 --first 0")
# make soak   kills of workers and brokers at random on three nodes (ARGS="--minutes 30 --write"): benchmarks/reliability.md
# make alerts  the harm of each alert done for real, and each board's queries asked, on a broker with Prometheus
#             (ARGS="--factor 20 --only StreamDedupLate")
# make docs   the documentation as a site, build/site/index.html; every link checked
# make boards  the Grafana boards in deploy/grafana, from boards/
# make wheel  the package, in dist/
# make image  the container image of workers and service; make check-image: it runs read-only and without rights;
#             make check-compose: deploy/compose.yml with it, for real; make kafka-image, make prometheus-image: where
#             apache/kafka and prom/prometheus cannot be pulled

VENV := .venv
BIN := $(VENV)/bin
# An environment keeps its Python; where another one is given, it is made anew.
PYTHON ?= $(firstword $(wildcard $(BIN)/python) python3)
WHICH := import sys; print(sys.base_prefix, sys.version)
OTHER := $(if $(filter-out file,$(origin PYTHON)),$(filter-out \
  $(shell $(BIN)/python -c '$(WHICH)' 2>/dev/null),$(or $(shell $(PYTHON) -c '$(WHICH)' 2>/dev/null),none)))
# The oldest Rust that builds the native core.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' native/Cargo.toml)
PIP := $(BIN)/pip --disable-pip-version-check
# Installs sets of requirements and keeps their list as the target; the program's own are among them, so no set breaks them.
install = $(BIN)/python deploy/requirements.py $(1) >$@.wanted && $(PIP) install --quiet --requirement $@.wanted && mv $@.wanted $@
# The tools of tests and figures.
TOOLS := $(VENV)/.core $(addprefix $(VENV)/.,test bench confluent docs parquet registry)
# --locked: with the crates of Cargo.lock.
CRATE := --quiet --locked --manifest-path native/Cargo.toml
# Test processes side by side: more than there are cores, because many wait, for a broker or for a limit of time. 0 for none (to
# see a test's output as it comes, or for a debugger).
JOBS ?= $(shell echo $$(( $$(nproc) + $(if $(findstring not broker,$(ARGS)),2,3) )))
# More for pytest or the run: make test ARGS="-k keeper", make quality ARGS="--only comments"
ARGS ?=

IMAGE ?= stream-dedup
KAFKA_IMAGE ?= stream-dedup/kafka:4.3.1
PROMETHEUS_IMAGE ?= stream-dedup/prometheus

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# With make -j, too: one pip at a time in an environment, and nothing runs while it installs.
.NOTPARALLEL:
.PHONY: help docker setup run demo test test-full test-cluster test-spark lint bench quality fuzz simulate soak alerts boards docs wheel image check-image check-compose kafka-image prometheus-image clean other

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

docker:
	@command -v docker >/dev/null || { echo 'docker is not installed: apt install docker.io' >&2; exit 1; }

# An environment that grows with what is asked of it. Each of these files is the list of what is installed: .run of what
# running and building need, the others of one extra; .core says that the native core is built and the program installed.
setup: $(VENV)/.core

$(VENV)/.run: pyproject.toml deploy/requirements.py $(if $(OTHER),other)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	  || { echo 'Python 3.11 to 3.14 is needed; $(PYTHON) is another: make PYTHON=/path/to/python3.11'; exit 1; }
	@[ "$$(printf '%s\n' $(RUST) "$$(cargo --version 2>/dev/null | cut -d ' ' -f 2)" | sort -V | head -n 1)" = $(RUST) ] \
	  || { echo 'Rust $(RUST) or later is needed: apt install cargo-web (Debian 12), apt install cargo (Debian 13), or rustup'; exit 1; }
	@echo 'Setting up $(VENV) (the first time takes some minutes)'
	@$(PYTHON) -m venv $(if $(OTHER),--clear )$(VENV) || { echo 'Python cannot make environments here: apt install python3-venv'; exit 1; }
	@$(call install,build broker serve)

$(VENV)/.%: $(VENV)/.run
	@$(call install,$*)

# Built with what .run has: no package is fetched again for it, and after an edit cargo builds what changed. The
# time of .core is that before the build: what is edited meanwhile is built by the next call. So is a core that somebody removed.
$(VENV)/.core: $(VENV)/.run native/Cargo.toml native/Cargo.lock $(shell find native/src native/build -type f) \
  $(if $(wildcard stream_dedup/_native.*.so),,other)
	@touch $@.begun
	@PATH='$(CURDIR)/$(BIN)':$$PATH $(PIP) install --quiet --no-build-isolation --no-deps --editable .
	@mv $@.begun $@

run: setup
	@$(BIN)/python -P -m stream_dedup.dev.demo

demo: setup
	@exec $(BIN)/python -P -m stream_dedup.dev.demo pages

test: $(TOOLS)
	@PYO3_PYTHON='$(CURDIR)/$(BIN)/python' cargo test $(CRATE) --no-default-features
	@$(BIN)/pytest --numprocesses $(JOBS) $(ARGS)

test-full: export STREAM_DEDUP_TESTS := full
test-full: $(VENV)/.spark test

test-cluster: $(TOOLS)
	@$(BIN)/pytest -m cluster $(ARGS)

test-spark: $(TOOLS) $(VENV)/.spark
	@$(BIN)/pytest -m spark $(ARGS)

lint: $(TOOLS) $(VENV)/.lint $(VENV)/.spark
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache
	@cargo fmt --check --manifest-path native/Cargo.toml
	@PYO3_PYTHON='$(CURDIR)/$(BIN)/python' cargo clippy $(CRATE) --all-targets -- --deny warnings

bench: $(TOOLS)
	@$(BIN)/python -m benchmarks

quality: $(TOOLS)
	@$(BIN)/python -m benchmarks.quality $(ARGS)

simulate: $(TOOLS)
	@$(BIN)/python -m tests.simulation $(ARGS)

fuzz: $(TOOLS)
	@$(BIN)/python -m tests.fuzz $(ARGS)

alerts: $(TOOLS)
	@$(BIN)/python -m benchmarks.alerts $(ARGS)

boards: $(TOOLS)
	@$(BIN)/python -m boards

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'build/site/index.html'

soak: $(TOOLS)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

wheel: $(VENV)/.run
	@$(PIP) wheel --quiet --no-deps --wheel-dir dist .

# deploy/certs/README: what to do where the network puts its own certificates before PyPI's.
image: docker
	@docker build --tag $(IMAGE) --file deploy/Dockerfile .

check-image: docker
	@deploy/check-image $(IMAGE)

check-compose: docker
	@deploy/check-compose

# The context is made by tar: the jars come from the cache, and no builder but the classic one is needed.
kafka-image: docker setup
	@jars=$$($(BIN)/python -P -c 'from stream_dedup.dev.broker import jvm; print(jvm.install_jars())') \
	  && tar --create --transform 's,^\(.*\.jar\)$$,jars/\1,' -C deploy/kafka Dockerfile run \
	    -C '$(CURDIR)/stream_dedup/dev/broker' log4j2.properties -C "$$jars" $$(ls $$jars) \
	  | docker build --tag $(KAFKA_IMAGE) -

prometheus-image: docker
	@docker build --tag $(PROMETHEUS_IMAGE) deploy/prometheus

clean:
	@rm -rf $(VENV) build dist native/target stream_dedup/_native.*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis
