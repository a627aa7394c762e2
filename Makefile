# Two commands matter: `make demo` and `make test`. Both set everything up in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8

# An image may set this; with it, every test process and every command that a test starts compiles muster again, which
# takes it up to 2 s of CPU time.
unexport PYTHONDONTWRITEBYTECODE

# Which versions test-newest installs: uv's names for the newest and the oldest that pyproject.toml allows.
RESOLUTIONS := highest lowest-direct

.PHONY: setup demo test test-full test-newest test-browser test-cluster test-upstream kustomize check bench bench-cluster reproduce mutants release clean

demo: setup
	@$(BIN)/muster demo

# The quick tier of the tests (tests/tiers.py); `test-full` has them all.
test: check
	@$(BIN)/pytest -n 2 $(PYTEST_ARGS)

test-full: check
	@MUSTER_TESTS=full $(BIN)/pytest -n 2 $(PYTEST_ARGS)

# With the newest versions that are allowed, then with the oldest, each in an environment of its own.
test-newest: setup
	@for which in $(RESOLUTIONS); do \
	  echo "dependencies: $$which" && $(PYTHON) -m venv --clear $(VENV)-$$which && \
	  $(BIN)/uv pip install --quiet --python $(VENV)-$$which/bin/python --resolution $$which -e . --group dev && \
	  $(VENV)-$$which/bin/pytest -n 2 $(TESTS) $(PYTEST_ARGS) || exit 1; \
	done

# The dashboard in Chromium, which root gets from Debian; skipped where there is none.
test-browser: setup
	@$(BIN)/python -m tests.browser

# On $KUBECONFIG, a cluster that may be written to, or on a control plane that is built with Go and kept.
test-cluster: setup
	@MUSTER_TEST_CLUSTER=1 $(BIN)/python -m tests.cluster

# Controllers of other projects beside muster, built with Go once and kept. UPSTREAM_ARGS=--kept builds none.
test-upstream: setup
	@MUSTER_TEST_UPSTREAM=1 $(BIN)/python -m tests.upstream $(UPSTREAM_ARGS)

# The kustomize base, from the Helm chart; Helm is built with Go.
kustomize: setup
	@$(BIN)/python -m tests.cluster.kustomize

check: setup
	@$(BIN)/ruff format --check src tests bench
	@$(BIN)/ruff check src tests bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: setup
	@$(BIN)/python -m bench

# Muster, kube-scheduler and bare binds side by side, on control planes built as for test-cluster.
bench-cluster: setup
	@$(BIN)/python -m bench.kubernetes $(BENCH_ARGS)

# With the quick tier, and what it lets pass with the full one; MUSTER_TESTS=quick asks the quick one alone.
mutants: setup
	@MUSTER_TESTS=$${MUSTER_TESTS:-full} $(BIN)/python -m tests.mutants

# Published experiments, on the traces under $MUSTER_TRACES.
reproduce: setup
	@$(BIN)/python -m bench.reproduce

# What a release publishes, built into dist/ and tried in clean environments; the chart's Helm is built with Go.
release: setup
	@$(BIN)/python -m tests.release

setup: $(VENV)/.done

# uv comes from PyPI into the environment itself, so that nothing has to be installed beforehand.
$(VENV)/.done: pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "muster needs Python 3.11 or newer; '$(PYTHON)' is older (set PYTHON=python3.x)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "python3-venv is missing: sudo apt install python3-venv"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv sync --quiet --frozen --python $(BIN)/python
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
