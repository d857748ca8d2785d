# Each target installs its requirements into .venv, and prints that. Python 3.11 has to be installed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# The pip of the machine's own Python, where installed: another pip in .venv would take a third of `make run`.
PIP = $$([ -x $(BIN)/pip ] && echo $(BIN)/pip || echo "$(PYTHON) -m pip --python $(BIN)/python") \
	install --disable-pip-version-check --no-input --progress-bar off --no-compile --quiet --quiet
# Tests wait as often as they compute. With more processes, collection costs more than they save.
WORKERS ?= 4
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadgroup
# Tests start hundreds of Pythons: keep compiled files for the next, also where PYTHONDONTWRITEBYTECODE is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test e2e test-long test-live test-plugs engines check compare docs picture bench fleet fuzz soak clean

run: .venv/run.ready     ## the main job: one script that searches, reads and counts, on this machine
	$(BIN)/hermes-env run examples/repository_report.py

test: .venv/test.ready   ## the first ring, tests/: no engine, no network, no root; a part: make test ARGS=tests/rpc
	$(PYTEST) $(if $(ARGS),$(ARGS),tests)

e2e: .venv/e2e.ready engines   ## the second ring, e2e/: containers, SSH servers, Apptainer; a part: make e2e ARGS=e2e/docker
	$(PYTEST) $(if $(ARGS),$(ARGS),e2e)

test-long: .venv/long.ready engines   ## the third ring, tests_long/: full cloud stand-ins, many examples, browser, frameworks
	$(PYTEST) $(if $(ARGS),$(ARGS),tests_long)

test-live: .venv/e2e.ready   ## the contract on the cloud services themselves, where their credentials are set; costs money
	HERMES_TEST_LIVE=1 $(BIN)/pytest -rs tests_long/conformance -k 'modal or daytona'

test-plugs: .venv/long.ready engines   ## frameworks' own tests on our plugs, see tests_long/plugs/README.md: make test-plugs ARGS=deepagents
	PYTHONPATH=tests:tests_long $(BIN)/python -m plugs $(ARGS)

engines:                 ## the engines of e2e/; an engine that cannot be set up is a failure
	e2e/setup

check: .venv/check.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

compare: .venv/long.ready   ## the table of hermes-agent's settings and its config.yaml, with each release in the package index
	@rm -rf .compare
	@for minor in 13 14 15 16 17 18 19 20 21 22; do \
		$(BIN)/python -m pip download --quiet --quiet --no-deps --dest .compare "hermes-agent==0.$$minor.*" 2>/dev/null \
			|| echo "the package index has no hermes-agent 0.$$minor"; \
	done
	HERMES_AGENT_WHEELS=.compare $(BIN)/pytest -n0 tests_long/environments/hermes_agent_table.py

docs: .venv/docs.ready   ## the tables and the diagram of docs/, from the code, and the site, in site/; a warning is an error
	$(BIN)/python docs/settings_tables.py
	$(BIN)/python docs/rooms_picture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html; to search, serve the site: $(BIN)/python -m http.server --directory site --bind 127.0.0.1"

picture: .venv/test.ready   ## docs/picture.svg, the README's terminal, from a run of the commands
	$(BIN)/python docs/picture.py

bench: .venv/bench.ready .venv/test.ready   ## the cost of each operation, beside its raw cost and other packages: docs/performance.md; a part: make bench ARGS=docker
	$(BIN)/python -m benchmarks $(ARGS)

fleet: .venv/bench.ready .venv/test.ready   ## the capacity of a batch's driver, 10 to 10,000 workers: docs/many-environments.md
	$(BIN)/python -m benchmarks.fleet $(ARGS)

fuzz: .venv/fuzz.ready .venv/test.ready   ## fuzz the readers of untrusted bytes, each for SECONDS (60), or one: make fuzz ARGS=framing
	PYTHONPATH=tests:tests_long $(BIN)/python -m fuzz $(ARGS)

soak: .venv/test.ready   ## a soak test with faults: SOAK_BACKEND (local, docker, ssh), SOAK_COMMANDS, _CALLS, _SCRIPTS, _SEED
	$(BIN)/python -m benchmarks.soak

$(BIN)/python:
	@echo "making .venv"
	@$(PYTHON) -m pip --version >/dev/null 2>&1 && $(PYTHON) -m venv --without-pip .venv || $(PYTHON) -m venv .venv

.venv/run.ready: pyproject.toml | $(BIN)/python
	@echo "installing the package and its dependencies into .venv, 25 MB"
	@$(PIP) --editable .
	@touch $@

# Install an extra of pyproject.toml, such as `test` for `make test`, beside the installed ones.
.venv/%.ready: pyproject.toml | $(BIN)/python
	@echo "installing the requirements of 'make $*' into .venv; the first time this takes a minute or two"
	@$(PIP) --editable '.[$*]'
	@touch $@

clean:
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .fuzz .compare .plugs .bench .mcp_clients
	find . -name __pycache__ -prune -exec rm -rf {} +
