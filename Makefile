# Everything a fresh machine with Python 3.11 needs is set up by the targets themselves, in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Tests mostly wait, so that there are several to a core.
WORKERS ?= 8
# Tests start Python by the hundred: what one has compiled is there for the next, also where that is switched off.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-live test-plugs engines check compare docs picture bench fleet fuzz soak clean

run: .venv/ready        ## the main job: one script that searches, reads and counts, on this machine
	$(BIN)/hermes-env run examples/repository_report.py

test: .venv/ready engines   ## all tests, or a part: make test ARGS='tests/environments/ssh -k refused'
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-live: .venv/ready   ## the contract on the cloud services themselves, where their credentials are set; it costs money there
	HERMES_TEST_LIVE=1 $(BIN)/pytest -rs tests/environments/conformance -k 'modal or daytona'

test-plugs: .venv/ready engines   ## other frameworks' own tests on our plugs, as in docs/plugs.md: make test-plugs ARGS=deepagents
	PYTHONPATH=tests $(BIN)/python -m plugs $(ARGS)

engines:                ## the engines that tests run on, where this machine allows it; in CI they must be there
	e2e/setup $(if $(CI),,--where-possible)

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

compare: .venv/ready     ## the table of hermes-agent's settings and their whole config.yaml, with hermes-agent itself
	$(BIN)/pip download --quiet --no-deps --dest .compare hermes-agent==0.19.0
	HERMES_AGENT_WHEEL=$$(echo .compare/hermes_agent-*.whl) $(BIN)/pytest tests/environments/test_legacy.py -k itself

docs: .venv/ready        ## the tables in docs/, from the code, and all of it as a site, in site/; a warning is an error
	$(BIN)/python docs/settings_tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html, or serve it, so that it can be searched: $(BIN)/python -m http.server --directory site --bind 127.0.0.1"

picture: .venv/ready     ## docs/picture.svg, the README's terminal, from commands that are run for it
	$(BIN)/python docs/picture.py

bench: .venv/ready       ## what things cost, beside their least and what others cost: docs/performance.md; a part: make bench ARGS=docker
	$(BIN)/python -m benchmarks $(ARGS)

fleet: .venv/ready       ## what a batch's driver bears, 10 to 10,000 workers: docs/fleet.md
	$(BIN)/python -m benchmarks.fleet $(ARGS)

fuzz: .venv/ready        ## what reads others' bytes, each for SECONDS (60), or one: make fuzz ARGS=framing
	$(BIN)/pip install --quiet --editable '.[fuzz]'
	PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

soak: .venv/ready        ## much work with faults: SOAK_BACKEND (local, docker, ssh), SOAK_COMMANDS, _CALLS, _SCRIPTS, _SEED
	$(BIN)/python -m benchmarks.soak

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip   # that of Python 3.11 takes twice as long, for this and for frameworks
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .fuzz .compare .plugs .bench
	find . -name __pycache__ -prune -exec rm -rf {} +
