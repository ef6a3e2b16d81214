"""torch's tests of `multiprocessing.spawn`, including those that are never collected there."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import sys
import time

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp


def succeed(rank) -> None: ...


def raise_one(rank, failing) -> None:
    if rank == failing:
        raise ValueError("legitimate exception from process")
    time.sleep(30)


def exit_with(rank, code) -> None:
    if rank == 0:
        sys.exit(code)
    time.sleep(30)


def wait_for_end_of_first(rank, code, gone) -> None:
    """Rank 0 exits; the others notice that, and end by themselves."""
    if rank == 0:
        sys.exit(code)
    gone.wait(60)


def succeed_then_raise(rank, delay) -> None:
    if rank == 0:
        return
    time.sleep(delay)
    raise ValueError("legitimate exception")


def test_success(start_method) -> None:
    assert mp.start_processes(succeed, nprocs=2, start_method=start_method) is None


def test_success_non_blocking(start_method) -> None:
    context = mp.start_processes(succeed, nprocs=2, join=False, start_method=start_method)
    context.join(timeout=None)
    context.join(timeout=None)
    assert context.join(timeout=None)


def check_arguments(rank, *arguments) -> None:
    assert arguments == (1, "two")


@pytest.mark.parametrize("kind", [tuple, list])
def test_arguments_in_a_tuple_or_a_list(start_method, kind) -> None:
    mp.start_processes(check_arguments, kind([1, "two"]), start_method=start_method)


@pytest.mark.parametrize("kind", [st.ones, np.ones, str, range, int])
def test_args_that_are_not_a_tuple_raise(kind) -> None:
    """torch would pass the tensor's rows, or the letters of a string, to the function."""
    given = kind(2)
    name = type(given).__name__
    with pytest.raises(TypeError, match=rf"args must be a tuple or list .*, such as \(x,\); got {name}"):
        mp.spawn(succeed, given, 1)


@pytest.mark.parametrize("failing", [0, 1])
def test_exception_single(start_method, failing) -> None:
    with pytest.raises(
        mp.ProcessRaisedException, match=r"\nValueError: legitimate exception from process\n$"
    ):
        mp.start_processes(raise_one, (failing,), nprocs=2, start_method=start_method)


@pytest.mark.parametrize("grace_period", [None, 60])
def test_terminate_exit(start_method, grace_period, caplog) -> None:
    """Without a grace period the other gets SIGTERM, which is logged; with one it ends by itself."""
    caplog.set_level(logging.WARNING)
    gone = mp.get_context(start_method).Event()
    work = (wait_for_end_of_first, (123, gone)) if grace_period else (exit_with, (123,))
    context = mp.start_processes(*work, nprocs=2, join=False, start_method=start_method)
    if grace_period:
        assert multiprocessing.connection.wait([context.processes[0].sentinel], 60)
        gone.set()
    with pytest.raises(Exception, match="process 0 terminated with exit code 123"):
        context.join(timeout=100, grace_period=grace_period)
    terminated = [record.args[0] for record in caplog.records if "SIGTERM" in record.msg]
    assert terminated == ([] if grace_period else [context.pids()[1]])
    assert not any(process.is_alive() for process in context.processes)


def test_success_first_then_exception(start_method) -> None:
    with pytest.raises(Exception, match="ValueError: legitimate exception"):
        mp.start_processes(succeed_then_raise, (0.1,), nprocs=2, start_method=start_method)


@pytest.mark.parametrize(
    "error",
    [
        mp.ProcessRaisedException("some text", 1, 4711),
        mp.ProcessExitedException("other text", 2, 4712, -9, "SIGKILL"),
    ],
    ids=["raised", "exited"],
)
def test_errors_pickle(error) -> None:
    error.add_note("another failed too")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)
    assert copy.error_index in {1, 2}


def pass_gate(ready, go) -> str:
    ready.put("here")
    assert go.wait(60)
    return "passed"


class Gate:
    """Its unpickling waits until all workers unpickle theirs."""

    def __init__(self, ready, go) -> None:
        self.meeting = ready, go
        self.load = bytes(1 << 20)

    def __reduce__(self):
        return open_gate, (*self.meeting, self.load)


def open_gate(ready, go, load) -> str:
    return pass_gate(ready, go)


def check_passed(rank, gate) -> None:
    """Check that the gate was passed; a forked worker does not unpickle it."""
    assert (pass_gate(*gate.meeting) if isinstance(gate, Gate) else gate) == "passed"


def test_workers_start_in_parallel(start_method) -> None:
    """No worker waits until another has read its large arguments."""
    context = mp.get_context(start_method)
    ready, go = context.SimpleQueue(), context.Event()
    workers = mp.start_processes(
        check_passed, (Gate(ready, go),), nprocs=4, join=False, start_method=start_method
    )
    assert [ready.get() for _ in range(4)] == ["here"] * 4
    go.set()
    assert workers.join()
