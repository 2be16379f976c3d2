# Needs python3 (3.11 or later for the pinned versions) and make; everything else is installed into virtual environments.
PYTHON ?= python3
VENV ?= .venv
VENV_NEXT ?= .venv-next
TORCH_NEXT ?= 2.14.1
VENV_ZOO ?= .venv-zoo
# The tests of a file share what was made for them, so one process runs them all.
WORKERS := -n auto --dist loadfile
PYTEST_ARGS ?= $(WORKERS) -m "not slow"

# Other Pythons that are present: the linter is installed there without torch, and tested.
LINT_VERSIONS ?= 3.10 3.13
LINT_VENVS := $(foreach v,$(LINT_VERSIONS),$(if $(shell sh tests/find_python.sh $v),.venv-lint-$v/.installed))

BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-next lint format pages bench zoo clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: $(VENV)/.installed-test  ## check the captioner and write readiness.html, readiness.md and readiness.json
	$(BIN)/exportlint report fixtures/captioning --output readiness.html --output readiness.md --output readiness.json

test: $(VENV)/.installed-test $(LINT_VENVS)  ## run the tests but those marked slow (PYTEST_ARGS="-k shapes" for some)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: $(VENV)/.installed-test $(LINT_VENVS)  ## run all tests
	$(BIN)/python -m pytest $(WORKERS)

test-next: $(VENV_NEXT)/.installed-test  ## run the tests with the next torch, in an environment of its own
	$(VENV_NEXT)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev  ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev  ## format the source and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pages: $(VENV)/.installed-test  ## write the generated pages of docs/ anew: the rules, and the linter beside Ruff
	$(BIN)/python -m exportlint.rules.pages docs/rules
	$(BIN)/python benchmarks/parity_with_ruff.py

bench: $(VENV)/.installed-test  ## measure the check device: what it finds, what it costs (minutes)
	$(BIN)/python benchmarks/device_matrix.py
	$(BIN)/python benchmarks/device_mutation.py --sites 5 --models 5
	$(BIN)/python benchmarks/device_cost.py

zoo: $(VENV_ZOO)/.installed  ## check some 400 models of transformers, timm and torchvision (hours; goes on where it stopped)
	$(VENV_ZOO)/bin/python -m exportlint.zoo run --list benchmarks/zoo_models.txt --output zoo.jsonl \
	  --checks capture,device,shapes,twins,state,lint --timeout 300
	$(VENV_ZOO)/bin/python benchmarks/zoo.py zoo.jsonl --output benchmarks/results/zoo.md
	$(VENV_ZOO)/bin/python benchmarks/zoo_readiness.py zoo.jsonl --folder docs/zoo
	$(VENV_ZOO)/bin/python benchmarks/score_card.py

clean:  ## remove environments, caches and reports
	rm -rf $(VENV) $(VENV_NEXT) $(VENV_ZOO) .venv-lint-* build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f readiness.html readiness.md readiness.json
	find exportlint pytest_plugin tests fixtures benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp tells that an environment holds what pyproject.toml and constraints.txt ask for.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$*]'
	touch $@

.venv-lint-%/.installed: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || "$$(sh tests/find_python.sh $*)" -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV_ZOO)/.installed: pyproject.toml constraints.txt
	test -x $(VENV_ZOO)/bin/python || $(PYTHON) -m venv $(VENV_ZOO)
	grep -v '^torch==' constraints.txt > $(VENV_ZOO)/constraints.txt
	$(VENV_ZOO)/bin/python -m pip install --quiet -c $(VENV_ZOO)/constraints.txt 'torch==$(TORCH_NEXT)' 'torchvision==0.29.1' 'timm==1.0.31' scipy -e '.[test]'
	touch $@

$(VENV_NEXT)/.installed-test: pyproject.toml constraints.txt
	test -x $(VENV_NEXT)/bin/python || $(PYTHON) -m venv $(VENV_NEXT)
	grep -v '^torch==' constraints.txt > $(VENV_NEXT)/constraints.txt
	$(VENV_NEXT)/bin/python -m pip install --quiet -c $(VENV_NEXT)/constraints.txt 'torch==$(TORCH_NEXT)' -e '.[test]'
	touch $@
