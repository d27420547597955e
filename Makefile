# Two commands for newcomers: `make demo` and `make test`. Both make their own virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# An installed torch is used if it is recent enough; else this one is installed. For a build without CUDA:
#   make demo TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH  ?= torch==2.13.0
OLDEST := import sys, torch; sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7))
HAVE   := $(shell $(PYTHON) -c '$(OLDEST)' 2>/dev/null && echo yes)

# Tests wait more than they compute, and a compiler takes memory.
WORKERS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4)))

.PHONY: demo test bench-boot pyz lint format clean

demo: $(VENV)/.installed
	@$(BIN)/python examples/demo.py

test: $(VENV)/.installed
	@bash tests/system-packages.sh
	$(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder

# What a start costs, against other tools (benchmarks/README.md). BENCH=--large adds a cache of 3 GB.
bench-boot: $(VENV)/.installed
	@bash tests/system-packages.sh
	@PYTHONPATH=tests $(BIN)/python benchmarks/boot.py $(BENCH)

# glowplug's run side in one file, and an image of it (docs/how-to/boot-in-docker.md).
pyz: $(VENV)/.installed
	@$(BIN)/python -m glowplug.build.zipapp dist
	@ls -l dist/glowplug.pyz

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(if $(HAVE),--system-site-packages) $(VENV)
	$(if $(HAVE),,$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[build,cog,torch,examples,dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist
