# Every target makes the virtual environment it needs on a fresh machine.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# one thread per process: two processes of two threads each spin on two cores
ONE := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
WORKERS ?= 2
CODE := src packages studies tests benchmarks conftest.py docs/*.py

.PHONY: demo docs test test-all test-thorough test-any-machine times check bench bench-real bench-gpu campaign peers mutants wheels format clean

demo: $(READY)
	$(VENV)/bin/bathyscope demo --out runs/demo

# strict: a link that leads nowhere, a page that is in no contents and a notebook that fails end it
docs: $(READY)
	$(ONE) $(PY) docs/generate.py
	$(ONE) $(PY) -m sphinx -W --keep-going -n -b html -d build/doctrees docs build/docs

# what an installation is trusted by: everything but what tests/times.csv says is slow
test: $(READY)
	$(ONE) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not thorough"

# what a change must pass
test-all: $(READY)
	$(ONE) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not thorough"

# with the sweeps over every family and the simulations
test-thorough: $(READY)
	$(ONE) $(PY) -m pytest -n $(WORKERS) --dist worksteal

# writes tests/times.csv; ONLY=tests/room measures that room alone, and the rows of others stay
times: $(READY)
	$(ONE) $(PY) -m pytest -p tests.support.timed -n $(WORKERS) --dist worksteal -m "not thorough" $(ONLY)

# all tests where every product of matrices rounds by the size of its call, as it may on another processor
test-any-machine: $(READY)
	$(ONE) $(PY) -m pytest -p tests.support.any_machine -n $(WORKERS) --dist worksteal

check: $(READY)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/mypy

bench: $(READY)
	$(PY) benchmarks/run_all.py

# the papers' numbers on their own models: days on one GPU; FLAGS="--dry-run" lists what it would take
campaign: $(READY)
	$(PY) -m studies.campaign $(FLAGS)

# about eight minutes on an H200; FLAGS=--tiny tries everything on a CPU
bench-gpu: $(READY)
	$(PY) benchmarks/gpu.py --out benchmarks/results $(FLAGS)

# other packages, each in an environment of its own; MODEL is --folder of studies.real_model, and DATA its --data;
# GEMMA, the folder that `python -m studies.real_model fetch --model gemma3` stores, adds the rows of Gemma 3
MODEL ?= $(HOME)/.cache/bathyscope/smollm2-135m-instruct-q4_1
DATA ?= ../shared/data
peers: $(READY)
	$(ONE) HF_HUB_OFFLINE=1 $(PY) benchmarks/peers/run.py --model SmolLM2=$(MODEL) \
		$(if $(GEMMA),--model Gemma3=$(GEMMA)) --model bundled --data $(DATA) $(FLAGS)

# on the vocabularies and the model of docs/real_model.md; the machine must be quiet
bench-real: $(READY)
	$(PY) benchmarks/real_shapes.py --size real --threads 2
	$(PY) benchmarks/real_shapes.py --size real --threads 2 --case checkpoint --model $(MODEL) \
		--gsm8k $(DATA)/gsm8k/test_first600.jsonl $(FLAGS)
	$(PY) benchmarks/time_shares.py --model $(MODEL) --text $(DATA)/text/wikitext2_valid.txt

mutants: $(READY)
	WORKERS=$(WORKERS) $(PY) tests/mutations/run.py $(ONLY)

# of the instrument and of the laboratory, into dist/
wheels: $(READY)
	rm -rf dist
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist . ./packages/bathyscope-lab

format: $(READY)
	$(VENV)/bin/ruff format $(CODE)
	$(VENV)/bin/ruff check --fix $(CODE)

clean:
	rm -rf $(VENV) build dist docs/generated .mypy_cache .ruff_cache .pytest_cache

# torch comes first and alone: a pinned version keeps an unpinned request of another package from choosing one
$(READY): pyproject.toml packages/bathyscope-lab/pyproject.toml constraints.txt
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet --constraint constraints.txt torch
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable packages/bathyscope-lab
	touch $(READY)
