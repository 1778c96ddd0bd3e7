# make run    sets everything up and runs the bundled model on the emulated Due
# make check  lint, types and the fast tests, within 90 s
# make test   sets everything up and runs the tests
# make claims repeats a tenth of the figures in README and docs
# make reproduce repeats a tenth of the papers' cells (PAPER=minun: of one paper, ALL=1: every one)
SHELL := /bin/bash
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Compiled modules are kept, whatever the shell says: hundreds of processes would compile them again.
unexport PYTHONDONTWRITEBYTECODE

RECENT := import sys; sys.exit(sys.version_info < (3, 11))
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
    $$p -c '$(RECENT)' 2>/dev/null && command -v $$p && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin
BOARD ?= due
MODEL ?= fastgrnn_har
# A file's tests share what they build: all of them in one process.
TESTS := $(BIN)/python -m pytest -n 2 --dist loadfile
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: setup setup-dev run check lint-cpp test test-slow claims reproduce mutate tables docs doctor clean packages packages-dev emulators natives avr8js rp2040js axe editors

run: setup
	$(BIN)/hil run --board $(BOARD) --model $(MODEL)

# What to run while working: lint, types, and the tests that start no compiler and no board.
UNIT := bench_file config deadline docs docstrings dsl dsl_roundtrip format_codecs format_functions format_seeds formats frontend layers lower \
    memplan model_fastgrnn_har ops protocol regions shape_graphs words zoo_limits
check: setup-dev
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory lint-cpp
	$(TESTS) -q -m "not slow" $(UNIT:%=tests/test_%.py)

lint-cpp:
	.ci/lint-cpp

test: setup-dev
	$(TESTS) -m "not slow"

# Slow tests compare our learners with those of stable-baselines3.
test-slow: setup-dev $(VENV)/.slow
	$(TESTS) -m slow

# Threads of BLAS that wait for one another keep a busy processor busy, up to thirty times as long.
claims reproduce: export OPENBLAS_NUM_THREADS ?= 1

# A tenth of the figures in README and docs, repeated; since when tables are stale is written into their pages.
claims: setup-dev
	$(BIN)/python -m tools.claims

# The papers' cells: docs/papers/reproduce.md. Each by its own command, equal to the record within its tolerance.
reproduce: setup-dev
	$(BIN)/python -m tools.claims --only docs/papers/$(PAPER) $(if $(ALL),,--tenth)

# Which small changes the tests notice: a sample of each module, minutes long. MODULE=memplan/bound.py SAMPLE=40
mutate: setup-dev
	$(PIP) install -c .ci/constraints.txt -e '.[dev,mutate]'
	$(BIN)/python -m tools.mutate $(MODULE) $(if $(SAMPLE),--sample $(SAMPLE))

# Committed tables, measured anew from a clean tree (needs HIL_DATA or the network for the data). ALL=1: those too that take hours:
# networks of other systems, searches, plans, training; of the papers and of ReRAM what is missing yet.
LONG_TABLES := calibration unsigned "onnx_backend --write" peers engines "latency_table --measure" "peers_models --measure" search op_costs "op_costs --page docs/measured/search_method.md" "training --all" \
    sweep_scaling passes attention language_models sequence_models "wake_words --write" papers reram "reram pages" "hard_planning --write docs/measured/memplan.md" "planners --write docs/measured/memplan.md" \
    "arena_mixes --write docs/measured/memplan.md"
tables: setup-dev
	$(BIN)/python -m tools.tables && $(BIN)/python -m benchmarks.zoo accuracy && $(BIN)/python -m tools.docs
	$(BIN)/python -m tools.format_plots
ifdef ALL
	for table in $(LONG_TABLES); do $(BIN)/python -m benchmarks.$$table || exit; done
	$(BIN)/python -m tools.docs && $(BIN)/python -m tools.readme_run && $(BIN)/python -m tools.examples
endif

# The site of docs/, into site/; fails on what leads nowhere.
docs: setup-dev
	$(BIN)/mkdocs build --strict --quiet

doctor: setup
	$(BIN)/hil doctor

setup: packages $(VENV)/.base emulators natives

setup-dev: packages-dev $(VENV)/.dev $(VENV)/.labgrid emulators natives avr8js rp2040js axe editors

packages:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(RECENT)' 2>/dev/null || \
	    { echo "setup: need Python 3.11 or newer; type: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@.ci/packages "$(PYTHON)"

packages-dev: packages
	@.ci/packages "$(PYTHON)" --dev

$(BIN)/python: | packages
	$(PYTHON) -m venv $(VENV)

# A stamp is as old as the last installation; pyproject.toml decides whether it is still good.
$(VENV)/.base: pyproject.toml Makefile | $(BIN)/python
	@echo "setup: installing Python packages into $(VENV)"
	@$(PIP) install --no-compile -e '.[report,plot,pytest]' # modules are compiled when first imported: a third of them
	@touch $@

BESIDE := memplan codegen search train harness
$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "setup: installing Python packages into $(VENV)"
	@mkdir -p $(VENV)/beside/tinyhil
	@ln -sfn $(BESIDE:%=../../../%) $(VENV)/beside/tinyhil/ # the type checker knows no __path__
	@$(PIP) install --no-compile -c .ci/constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.slow: pyproject.toml $(VENV)/.dev | $(BIN)/python
	@echo "setup: installing stable-baselines3 into $(VENV)"
	@$(PIP) install -c .ci/constraints.txt -e '.[dev,slow]'
	@touch $@

# For tests: a place in a farm. An environment of its own, because it brings a fork of pyserial.
$(VENV)/.labgrid: | $(BIN)/python
	@$(BIN)/python -m venv --without-pip $(VENV)/labgrid
	@$(PIP) --python $(VENV)/labgrid/bin/python install --no-compile 'labgrid>=25.0'
	@touch $@

emulators: | $(BIN)/python
	@$(MAKE) -s -C emulators/uno
	@$(MAKE) -s -C emulators/cortexm PYTHON=$(abspath $(BIN)/python)

# The planner's core and the engine of searches, so that no first command waits for a compiler.
natives: | $(BIN)/python
	@$(BIN)/python -m tinyhil.harness.build.natives

# For tests only, which are skipped without them: second opinions on the Uno and the Pico, on how pages can be read, and what an editor says of files.
SCRIPTED := avr8js rp2040js axe editors
FOLDER_OF = $(firstword $(wildcard emulators/$@ tests/$@))
# Node knows only its own certificates: behind a proxy with one of its own it needs those of the system.
SYSTEM_CERTIFICATES := $(wildcard /etc/ssl/certs/ca-certificates.crt)
NPM_REASON := sed -nE 's/^npm (error|ERR!) //p' | grep -vE 'complete log|^$$' | head -n 3 | paste -sd ' ' | cut -c -300
$(SCRIPTED):
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
	    [[ $(FOLDER_OF)/node_modules -nt $(FOLDER_OF)/package-lock.json ]] || { \
	        echo "setup: installing $@ into $(FOLDER_OF)"; \
	        export NODE_EXTRA_CA_CERTS="$${NODE_EXTRA_CA_CERTS:-$(SYSTEM_CERTIFICATES)}"; \
	        said=$$(timeout 600 npm ci --prefix $(FOLDER_OF) --no-audit --no-fund --loglevel error --fetch-retries 1 --fetch-timeout 20000 2>&1) \
	            && touch $(FOLDER_OF)/node_modules \
	            || echo "setup: $@ could not be installed, its tests will be skipped: $$({ $(NPM_REASON); } <<<"$$said")" >&2; }; \
	else echo "setup: no node and npm: the tests of $@ will be skipped" >&2; fi

clean:
	rm -rf .pio model .pytest_cache .mypy_cache .ruff_cache emulators/*/build
