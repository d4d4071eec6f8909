# Everything museorch installs goes into .venv and into the cache it owns ($MUSEORCH_HOME, else
# ~/.cache/museorch). Second runs find it there.
PYTHON ?= python3
BIN := .venv/bin
ENGINES := llamacpp vllm sglang

.PHONY: demo test test-real test-rest check engines docs docs-site bench-client bench-gpu clean

demo: .venv/ready
	$(BIN)/museorch engines install --device cpu llamacpp vllm
	$(BIN)/museorch compare recipes/tiny-muse/demo.yaml

# Tests on real engines, or a GPU, one after another on one core; all others meanwhile on another.
test: check engines .venv/docs
	$(MAKE) --jobs=2 --keep-going --output-sync=target test-real test-rest

test-real:
	$(BIN)/python -m pytest --durations=10 -m "engine or gpu"

test-rest:
	$(BIN)/python -m pytest --durations=10 -m "not engine and not gpu"

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

engines: .venv/ready
	$(BIN)/museorch engines install --device cpu $(ENGINES)

# Pages that are made from code, and all pages as a site in build/docs.
docs: .venv/ready
	$(BIN)/python -m tools.docs

docs-site: .venv/docs
	$(BIN)/python -m sphinx -W --keep-going -n docs build/docs

# museorch's client against other tools'; for numbers nothing else may run meanwhile.
bench-client: .venv/ready
	-$(BIN)/museorch engines install --device cpu vllm
	$(BIN)/python -m benchmarks.client.run
	$(BIN)/python -m benchmarks.client.page

# The 30B's shape on one GPU, with the engines that are here; what is unfinished is taken up again.
bench-gpu: .venv/ready
	$(BIN)/python -m benchmarks.gpu.run

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "museorch needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv
