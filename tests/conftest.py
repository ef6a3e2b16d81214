"""Axes of variation, the leak guard, and the header of the report."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import platform
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _siblings
from tests.helpers.children import STAND_IN
from tests.helpers.leaks import Snapshot, abandoned, shm_names


def pytest_configure(config: pytest.Config) -> None:
    if "not thorough" in config.option.markexpr and not config.getoption("--hypothesis-profile", None):
        use_the_same_examples_each_time()
    # A third of the processor time that a child takes to import NumPy is OpenBLAS's threads, spinning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Processes that are started from here import this pytest.
    sys.path.insert(0, str(STAND_IN))
    # With it, print() writes a line and its end separately, and the lines of two processes mix.
    os.environ.pop("PYTHONUNBUFFERED", None)
    # `once` would warn in the workers of pytest-xdist, which a Python program executes.
    _siblings._warned = True


def use_the_same_examples_each_time() -> None:
    """Chance should decide no everyday test, and hypothesis generates random examples by default."""
    with contextlib.suppress(ImportError):  # tests on a GPU do without
        from hypothesis import settings

        settings.register_profile("same", derandomize=True)
        settings.load_profile("same")


def pytest_report_header() -> str:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return (
        f"shmtensor {st.__version__}, NumPy {np.__version__}, Linux {platform.release()}, "
        f"GIL {'on' if gil else 'off'}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all start methods and strategies of a test but the first to `make test-all`.

    It varies one of the two; `make nightly` varies both together.
    """
    for item in items:
        if hasattr(item, "callspec"):
            indices = item.callspec.indices
            varied = [name for name in ("start_method", "strategy") if indices.get(name)]
            if varied:
                item.add_marker(pytest.mark.thorough)
            if len(varied) == 2:
                item.add_marker(pytest.mark.nightly)


NAMES = pytest.StashKey[set[str]]()


def is_whole_run(session: pytest.Session) -> bool:
    """Return True in the main process of the run, False in its xdist workers."""
    return not hasattr(session.config, "workerinput")


def pytest_sessionstart(session: pytest.Session) -> None:
    if is_whole_run(session):
        session.config.stash[NAMES] = shm_names()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """No test leaves a name in /dev/shm; a name cannot be assigned to a test while others run."""
    if not is_whole_run(session):
        return
    deadline = time.monotonic() + 60
    while names := abandoned(shm_names() - session.config.stash[NAMES]):
        if time.monotonic() > deadline:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            reporter.write_line(f"ERROR: the tests left names in /dev/shm: {names}", red=True)
            return
        time.sleep(0.1)


@pytest.fixture(scope="session", autouse=True)
def helpers_running() -> None:
    """Start what runs until the end, so that no single test seems to leak it."""
    # A shell starts background jobs with SIGINT ignored, which their children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource_tracker.ensure_running()
    # As programs that start many workers do; a start then takes 20 ms instead of 300.
    multiprocessing.set_forkserver_preload(["numpy", "pytest", "shmtensor.multiprocessing"])
    forkserver.ensure_running()
    mp.start_processes(abs, start_method="server")
    for strategy in ("file_system", "file_descriptor"):  # an arena each
        mp.set_sharing_strategy(strategy)
        st.empty(1)
        constant = st.frombuffer(b"constant", np.uint8)  # arrives in a read-only mapping
        pickle.loads(ForkingPickler.dumps(constant))


@pytest.fixture(autouse=True)
def leak_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test leaves descriptors, mappings, names, children and blocks as it found them."""
    before = Snapshot.take()
    gc.freeze()  # existing objects need not be searched for garbage after the test
    yield
    problems = Snapshot.settled_difference(before)
    assert not problems, "left behind: " + "; ".join(problems)


@pytest.fixture(params=["forkserver", "spawn", "server", "fork"])
def start_method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def ctx(start_method: str) -> multiprocessing.context.BaseContext:
    return mp.get_context(start_method)


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)
