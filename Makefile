# The daily vocabulary. Everything runs in .venv, made from the pinned and hashed lock files.
# A machine needs Python >= 3.11, git and make; nothing else.

SHELL := /bin/sh
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --progress-bar off --require-hashes --no-deps
# Installs a lock file and says how far it is: a line for every tenth package.
INSTALL = { $(PIP) -r $(1) || echo FAILED; } | awk -v all="$$(grep -c '==' $(1))" ' \
	/^FAILED$$/ { exit 1 } /^ERROR/ { print } \
	/^(Collecting|Processing)/ && ++n % 10 == 0 { print "setting up: " n " of about " all " packages"; fflush() } \
	/^Installing/ { print "setting up: all are here, unpacking them"; fflush() }'
# Tests keep what Python has compiled of them, on machines too where it is told not to: each worker
# would rewrite and compile all of them in each run.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest
COMPILED := tests/__pycache__/.compiled
TRAINERS := .trainers
RAY := .ray
RAY_VERSION ?= 2.60.0
IRIS := .iris
KUBERNETES := .kubernetes
SITE := .site
PYTHON312 ?= $(shell for p in python3.14 python3.13 python3.12 python3 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
# One more than the cores of a small machine: much of a test's time is waiting.
WORKERS ?= 4
ARGS ?=
MINUTES ?= 15
SEED ?= $(shell date +%s)

.PHONY: changelog demo site compiled test test-iris test-kubernetes test-ray trainers lint bench judgement docs screenshots snapshots fuzz soak lock clean help

help:
	@echo 'make demo        set up, then open the cockpit on seven real small training runs'
	@echo 'make test        set up, then run the tests'
	@echo 'make test-ray    set up a real Ray (about 320 MB), run the tests of Ray jobs against a head of it'
	@echo 'make test-iris   set up a real Iris controller (0.7 GB, Python 3.12), run the tests that need it'
	@echo 'make test-kubernetes  build a real API server (6 minutes, root on Debian), run the tests that need it'
	@echo 'make trainers    set up real trainers (about 2 GB), compare what is said of them with the truth'
	@echo 'make lint        formatting, lint, strict types, import direction'
	@echo 'make bench       the table of speed and cost, with baselines and bars (bench/README.md)'
	@echo 'make judgement   how right triage, progress and alarms are, into bench/judgement/RESULTS.md'
	@echo 'make docs        what docs/ repeats of the code (verbs, keys, settings) and man cockpit, anew'
	@echo 'make site        docs/ as a site in _site/ (its own environment; nothing is fetched to read it)'
	@echo 'make snapshots   every screen at three sizes in every theme, for the tests, anew; with'
	@echo "                 ARGS='--svg FOLDER' pictures of what is kept"
	@echo 'make screenshots docs/*.svg from the running demo'
	@echo 'make fuzz        every screen under whatever is pressed, 15 minutes (MINUTES=, SEED=, ARGS=),'
	@echo '                 then the property tests at full length'
	@echo 'make soak        races, kills and hours of real cockpits on real runs, at full length'
	@echo 'make lock        resolve the lock files anew'
	@echo 'make changelog   CHANGELOG.md with what lies in changelog.d/ as VERSION='

$(VENV)/.made:
	@echo 'setting up: making .venv'
	@test -n '$(PYTHON)' || { echo 'cockpit needs Python 3.11 or newer; set PYTHON=/path/to/python3' >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements.lock
	@echo 'setting up: installing the pinned packages into .venv (once, half a minute or more)'
	@$(call INSTALL,requirements.lock)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo 'setting up: installing the pinned development tools into .venv (once)'
	@$(call INSTALL,requirements-dev.lock)
	@touch $@

# The program itself, as it lies here: .venv/bin/cockpit. Nothing is looked up for it, and what
# builds it is locked.
$(VENV)/.project: $(VENV)/.runtime pyproject.toml
	@echo 'setting up: installing the cockpit itself into .venv, as it lies here'
	@$(PY) -m pip --disable-pip-version-check install --quiet --no-index --no-deps \
		--no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.project
	@$(PY) -m cockpit demo $(ARGS)

# All tests compiled once, by two at once; workers that begin together would each compile them all.
# What is wrong with one is told by the tests themselves.
$(COMPILED): $(VENV)/.dev $(VENV)/.project
	@$(PYTEST) --collect-only -qq tests/[a-q]*/ tests/re*/ >/dev/null 2>&1 & \
		$(PYTEST) --collect-only -qq tests/r[!e]*/ tests/[s-z]*/ tests/test_*.py >/dev/null 2>&1; wait
	@mkdir -p $(@D) && touch $@

compiled: $(COMPILED)

test: $(COMPILED)
	@$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS)

# A real Ray head, in an environment of its own: by name from the index, not part of the program.
$(RAY)/.made-$(RAY_VERSION):
	@test -n '$(PYTHON)' || { echo 'cockpit needs Python 3.11 or newer; set PYTHON=/path/to/python3' >&2; exit 2; }
	@echo 'setting up: installing ray $(RAY_VERSION) into $(RAY) (once)'
	@$(PYTHON) -m venv $(RAY)
	@$(RAY)/bin/python -m pip --disable-pip-version-check install --quiet 'ray[default]==$(RAY_VERSION)'
	@touch $@

test-ray: $(VENV)/.dev $(VENV)/.project $(RAY)/.made-$(RAY_VERSION)
	@COCKPIT_RAY=$(abspath $(RAY))/bin/ray $(PY) -m pytest -n 0 tests/platforms/ray tests/platforms/conformance -k ray $(ARGS)

# A real Iris controller with local workers, in an environment of its own: its current release is
# hidden from Pythons before 3.12.
$(IRIS)/.made: tests/platforms/iris/requirements.txt
	@test -n '$(PYTHON312)' || { echo 'Iris needs Python 3.12 or newer; set PYTHON312=/path/to/python3.12' >&2; exit 2; }
	@echo 'setting up: installing Iris into $(IRIS) (once)'
	@$(PYTHON312) -m venv $(IRIS)
	@$(IRIS)/bin/python -m pip --disable-pip-version-check install --quiet -r tests/platforms/iris/requirements.txt
	@touch $@

test-iris: $(VENV)/.dev $(VENV)/.project $(IRIS)/.made
	@IRIS_VENV=$(IRIS) $(PY) -m pytest -n 0 tests/platforms/iris/test_real.py tests/platforms/iris/test_real_acting.py $(ARGS)

# A real API server with its job controller, built from Debian's source package.
$(KUBERNETES)/bin/kube-apiserver:
	@echo 'setting up: building a Kubernetes API server into $(KUBERNETES) (once)'
	@sh tests/platforms/kubernetes/build.sh $(KUBERNETES)

test-kubernetes: $(VENV)/.dev $(VENV)/.project $(KUBERNETES)/bin/kube-apiserver
	@COCKPIT_KUBERNETES=$(abspath $(KUBERNETES)) $(PY) -m pytest -n 0 tests/platforms/kubernetes tests/platforms/conformance -k kubernetes $(ARGS)

# Real trainers, in an environment of their own: by name from the index, not part of the program.
$(TRAINERS)/.made: tests/trainers/requirements.txt
	@test -n '$(PYTHON)' || { echo 'cockpit needs Python 3.11 or newer; set PYTHON=/path/to/python3' >&2; exit 2; }
	@echo 'setting up: installing real trainers into $(TRAINERS) (once)'
	@$(PYTHON) -m venv $(TRAINERS)
	@$(TRAINERS)/bin/python -m pip --disable-pip-version-check install --quiet -r tests/trainers/requirements.txt
	@touch $@

trainers: $(VENV)/.project $(TRAINERS)/.made
	@$(PY) -m tests.trainers --python $(TRAINERS)/bin/python --into $(TRAINERS)/runs $(ARGS)

lint: $(VENV)/.dev
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache

bench: $(VENV)/.dev
	@$(PY) -m bench $(ARGS)

judgement: $(VENV)/.dev
	@$(PY) -m bench.judgement --into bench/judgement/RESULTS.md $(ARGS)

docs: $(VENV)/.runtime
	@$(PY) docs/make_reference.py

$(SITE)/.made: requirements-docs.lock
	@test -n '$(PYTHON)' || { echo 'cockpit needs Python 3.11 or newer; set PYTHON=/path/to/python3' >&2; exit 2; }
	@echo 'setting up: installing what makes the site into $(SITE) (once)'
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r $<
	@touch $@

site: $(SITE)/.made
	@$(SITE)/bin/sphinx-build -W -q -b html docs _site && echo 'open _site/index.html'

snapshots: $(VENV)/.dev
	@$(PY) -m tests.screens.frames $(ARGS)

screenshots: $(VENV)/.runtime
	@$(PY) docs/make_screenshots.py $(ARGS)

fuzz: $(VENV)/.dev
	@$(PY) -m tests.screens.fuzz --minutes $(MINUTES) --seed $(SEED) $(ARGS)
	@HYPOTHESIS_PROFILE=long $(PYTEST) -n $(WORKERS) -m hypothesis

soak: $(VENV)/.dev
	@SOAK=1 $(PYTEST) -n $(WORKERS) tests/e2e/test_races.py tests/e2e/test_crashes.py \
		tests/e2e/test_two_machines.py tests/e2e/test_memory.py tests/e2e/test_slurm.py \
		tests/e2e/test_points.py tests/e2e/test_store_races.py \
		tests/e2e/test_box_races.py tests/platforms/box/test_acting.py \
		tests/platforms/box/test_launcher_killed.py \
		tests/platforms/local/test_platform.py tests/hosts/test_supervisor.py \
		tests/records/git/test_saver.py tests/actions/roots/test_killed_away.py \
		tests/actions/roots/test_retain_away.py tests/screens $(ARGS)

lock:
	@uv pip compile pyproject.toml --extra build --upgrade --universal --generate-hashes --python-version 3.11 \
		--no-annotate --no-header --no-emit-index-url -q -o requirements.lock
	@uv pip compile pyproject.toml --extra dev --upgrade --universal --generate-hashes --python-version 3.11 \
		--no-annotate --no-header --no-emit-index-url -q -c requirements.lock -o requirements-dev.lock
	@printf '%s\n' furo myst-parser 'sphinx<10' | uv pip compile - --upgrade --universal --generate-hashes --python-version 3.11 \
		--no-annotate --no-header --no-emit-index-url -q -o requirements-docs.lock

changelog: $(VENV)/.dev
	@test -n '$(VERSION)' || { echo 'make changelog VERSION=0.3.0' >&2; exit 2; }
	@$(VENV)/bin/towncrier build --yes --version '$(VERSION)'

clean:
	@rm -rf $(VENV) $(TRAINERS) $(IRIS) $(RAY) $(KUBERNETES) $(SITE) _site .moto .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
