"""Errors of `spawn` distinguish all ways in which a worker can end."""

from __future__ import annotations

import faulthandler
import logging
import os
import pickle
import signal
import sys
import threading
import time

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._spawn import monitor
from shmtensor.multiprocessing._spawn.failure import count_oom_kills
from tests.helpers.children import end as end_of
from tests.helpers.children import run_program, wait_until, write_program


class TwoArguments(Exception):
    """An exception that can be pickled but not unpickled."""

    def __init__(self, first, second) -> None:
        super().__init__(f"{first} and {second}")


class WithLock(Exception):
    def __init__(self) -> None:
        super().__init__("has a lock")
        self.lock = threading.Lock()


class WithTensor(Exception):
    pass


def end(rank, how, argument=None) -> None:
    if how == "sys.exit":
        sys.exit(argument)
    elif how == "os._exit":
        os._exit(argument)
    elif how == "signal":
        faulthandler.disable()  # pytest's, in a forked child
        os.kill(os.getpid(), argument)
        time.sleep(30)
    elif how == "raise":
        raise argument
    elif how == "raise what cannot be unpickled":
        raise TwoArguments(1, 2)
    elif how == "raise what cannot be pickled":
        raise WithLock


def start(start_method, *how, nprocs=1):
    return mp.start_processes(end, how, nprocs=nprocs, join=False, start_method=start_method)


@pytest.mark.parametrize("code", [None, 0])
def test_sys_exit_without_code_is_success(start_method, code) -> None:
    context = start(start_method, "sys.exit", code)
    assert context.join()
    assert context.results() == [None]


@pytest.mark.parametrize(
    ("how", "argument", "code", "name", "text"),
    [
        ("sys.exit", 3, 3, None, r"exit code 3 by sys\.exit$"),
        ("sys.exit", "no more", 1, None, r"exit code 1: sys\.exit\('no more'\)$"),
        ("os._exit", 3, 3, None, r"exit code 3 without an exception, as by os\._exit"),
        ("os._exit", 0, 0, None, r"exit code 0 before its function returned, as by os\._exit\(0\)$"),
        ("signal", signal.SIGKILL, -9, "SIGKILL", r"signal SIGKILL$"),
        ("signal", signal.SIGSEGV, -11, "SIGSEGV", r"signal SIGSEGV$"),
        ("signal", signal.SIGTERM, -15, "SIGTERM", r"signal SIGTERM$"),
        ("signal", signal.SIGRTMIN + 5, -39, "signal 39", r"signal signal 39$"),
    ],
    ids=lambda value: str(value) if isinstance(value, (str, int)) else None,
)
def test_exit_codes_are_reported(start_method, how, argument, code, name, text) -> None:
    context = start(start_method, how, argument)
    with pytest.raises(mp.ProcessExitedException, match=text) as caught:
        context.join()
    error = caught.value
    assert (error.exit_code, error.signal_name) == (code, name)
    assert (error.error_index, error.error_pid) == (0, context.pids()[0])
    assert error.__cause__ is None
    with pytest.raises(mp.ProcessExitedException) as again:
        context.join()
    assert again.value is error, "joining again raises the same error"


def test_exception_is_the_cause(start_method) -> None:
    with pytest.raises(mp.ProcessRaisedException) as caught:
        mp.start_processes(end, ("raise", KeyError("left", 7)), start_method=start_method)
    cause = caught.value.__cause__
    assert type(cause) is KeyError
    assert cause.args == ("left", 7)
    assert "in end\n" in str(caught.value), "the worker's own lines are in the traceback"
    assert "worker.py" not in str(caught.value), "lines of shmtensor are not"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
def test_keyboard_interrupt_counts_as_failure(start_method, kind) -> None:
    with pytest.raises(mp.ProcessRaisedException, match=kind.__name__) as caught:
        mp.start_processes(end, ("raise", kind()), start_method=start_method)
    assert type(caught.value.__cause__) is kind


def wait_for_interrupt(rank, ready) -> None:
    ready.put("ready")
    time.sleep(60)


def test_sigint_counts_as_failure(start_method) -> None:
    ready = mp.get_context(start_method).SimpleQueue()
    context = mp.start_processes(wait_for_interrupt, (ready,), join=False, start_method=start_method)
    ready.get()
    os.kill(context.pids()[0], signal.SIGINT)
    with pytest.raises(mp.ProcessRaisedException, match="KeyboardInterrupt"):
        context.join()
    ready.close()


@pytest.mark.parametrize("how", ["raise what cannot be pickled", "raise what cannot be unpickled"])
def test_unpicklable_exception_arrives_as_text(start_method, how) -> None:
    kind = "WithLock: has a lock" if how.endswith("be pickled") else "TwoArguments: 1 and 2"
    with pytest.raises(mp.ProcessRaisedException, match=kind) as caught:
        mp.start_processes(end, (how,), start_method=start_method)
    assert caught.value.__cause__ is None


def raise_tensor(rank, tensor) -> None:
    raise WithTensor(tensor, st.full(3, 8))


def test_tensors_in_exceptions_are_handles(start_method, strategy) -> None:
    tensor = st.ones(3)
    with pytest.raises(mp.ProcessRaisedException) as caught:
        mp.start_processes(raise_tensor, (tensor,), start_method=start_method)
    back, own = caught.value.__cause__.args
    assert back.storage() is tensor.storage()
    assert own.tolist() == [8, 8, 8]


class FailsToLoad:
    def __reduce__(self):
        return fail_to_load, (os.getpid(),)


def fail_to_load(pid) -> None:
    if os.getpid() != pid:
        raise ImportError("there is no such thing here")


@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "server"])
def test_unpickling_error_of_arguments_is_reported(start_method) -> None:
    with pytest.raises(mp.ProcessRaisedException, match="there is no such thing here") as caught:
        mp.start_processes(end, (FailsToLoad(),), start_method=start_method)
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "server"])
def test_pickling_error_of_arguments_raises_immediately(start_method) -> None:
    with pytest.raises((TypeError, pickle.PicklingError), match="pickle"):
        mp.start_processes(end, ("raise", threading.Lock()), nprocs=3, start_method=start_method)


def leave_a_thread(rank) -> None:
    threading.Thread(target=time.sleep, args=(30,)).start()
    raise ValueError("although a thread runs")


def test_failed_worker_that_keeps_running_is_terminated(start_method, monkeypatch, caplog) -> None:
    """Its thread keeps it running; torch would wait indefinitely."""
    monkeypatch.setattr(mp.process_context, "_TERMINATE_TIMEOUT", 0.2)
    caplog.set_level(logging.ERROR)
    with pytest.raises(mp.ProcessRaisedException, match="although a thread runs"):
        mp.start_processes(leave_a_thread, start_method=start_method)


def ignore_sigterm(rank, ready) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.put(rank)
    if rank == 0:
        raise ValueError("the first")
    time.sleep(60)


def test_worker_that_ignores_sigterm_is_killed(start_method, monkeypatch, caplog) -> None:
    monkeypatch.setattr(mp.process_context, "_TERMINATE_TIMEOUT", 0.2)
    ready = mp.get_context(start_method).SimpleQueue()
    context = mp.start_processes(ignore_sigterm, (ready,), nprocs=2, join=False, start_method=start_method)
    assert {ready.get(), ready.get()} == {0, 1}
    with pytest.raises(mp.ProcessRaisedException, match="the first"):
        context.join()
    assert context.processes[1].exitcode == -signal.SIGKILL
    assert any("SIGKILL" in record.msg for record in caplog.records)
    ready.close()


def close_everything(rank) -> None:
    os.closerange(3, 1000)
    time.sleep(60)


def test_worker_that_closes_its_report_pipe_and_runs_on(start_method, monkeypatch, caplog) -> None:
    """Regression: terminating it for this made it a non-failure, and `join` raised a bare ValueError."""
    monkeypatch.setattr(mp.process_context, "_TERMINATE_TIMEOUT", 0.2)
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(
        mp.ProcessExitedException, match=r"closed .* but kept running, .* ended by SIGKILL"
    ) as caught:
        mp.start_processes(close_everything, start_method=start_method)
    assert (caught.value.exit_code, caught.value.signal_name) == (-signal.SIGKILL, "SIGKILL")


def test_unkillable_worker_does_not_hide_the_cause(start_method, monkeypatch, caplog) -> None:
    """Regression: if a worker was blocked in the kernel, all workers were terminated a second time."""
    monkeypatch.setattr(mp.process_context, "_TERMINATE_TIMEOUT", 0.1)
    monkeypatch.setattr(mp.process_context, "_KILL_TIMEOUT", 0.1)
    monkeypatch.setattr(monitor.Worker, "has_ended", lambda worker: False)
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(mp.ProcessRaisedException, match="the cause"):
        mp.start_processes(end, ("raise", ValueError("the cause")), start_method=start_method)
    wait_until(lambda: not mp.active_children())


def test_oom_kill_is_named_as_probable(monkeypatch) -> None:
    counts = iter([4, 6])
    monkeypatch.setattr(mp.process_context, "count_oom_kills", lambda: next(counts))
    context = start("fork", "signal", signal.SIGKILL)
    with pytest.raises(mp.ProcessExitedException, match=r"SIGKILL; probably .* lack of memory.* counts 2 "):
        context.join()


@pytest.mark.parametrize(
    ("cgroup", "file", "content"),
    [
        ("0::/a/b\n", "a/b/memory.events", "low 0\nhigh 1\noom 2\noom_kill 3\n"),
        ("0::/elsewhere\n", "memory.events", "oom_kill 3\n"),
        (
            "4:memory:/a\n0::/\n",
            "memory/a/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        ),
        ("4:cpu,memory:/host/a\n", "memory/memory.oom_control", "oom_kill 3\n"),
    ],
)
def test_oom_kills_are_counted(tmp_path, cgroup, file, content) -> None:
    own = tmp_path / "own"
    own.write_text(cgroup)
    assert count_oom_kills(tmp_path, own) is None
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert count_oom_kills(tmp_path, own) == 3
    (tmp_path / file).write_text("something else\n")
    assert count_oom_kills(tmp_path, own) is None
    assert count_oom_kills(tmp_path, tmp_path / "missing") is None


def test_no_temporary_file_is_created(start_method, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(mp.ProcessRaisedException):
        mp.start_processes(end, ("raise", ValueError(1)), start_method=start_method)


def test_exceptions_keep_their_attributes_when_pickled(start_method) -> None:
    with pytest.raises(mp.ProcessExitedException) as caught:
        mp.start_processes(end, ("sys.exit", 9), start_method=start_method)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.error_index, copy.error_pid, copy.exit_code) == (0, caught.value.error_pid, 9)


def return_then_exit_badly(rank) -> None:
    import atexit
    from multiprocessing import util

    util.Finalize(None, os._exit, args=(5,), exitpriority=1)
    atexit.register(os._exit, 5)


def test_exit_after_return_counts_as_failure(start_method) -> None:
    with pytest.raises(mp.ProcessExitedException, match="exit code 5 after its function returned"):
        mp.start_processes(return_then_exit_badly, start_method=start_method)


def test_join_respects_its_timeout(start_method) -> None:
    ready = mp.get_context(start_method).SimpleQueue()
    context = mp.start_processes(wait_for_interrupt, (ready,), join=False, start_method=start_method)
    ready.get()
    assert context.join(timeout=0) is False
    assert context.join(timeout=0.05) is False
    assert list(context.sentinels.values()) == [0]
    context.processes[0].kill()
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL"):
        context.join()
    assert context.sentinels == {}
    wait_until(lambda: not context.processes[0].is_alive())
    ready.close()


LETS_GO = """
    import sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    class WithTensor(Exception):
        pass

    def work(rank, event, tensor):
        assert event.wait(60)
        error = WithTensor("unread error")
        error.tensor = tensor + 1
        raise error

    if __name__ == "__main__":
        method = mp.get_context(sys.argv[1])
        event = method.Event()
        (process,) = mp.start_processes(
            work, (event, st.ones(3)), join=False, start_method=sys.argv[1]).processes
        event.set()
        process.join(60)
        print(process.exitcode, st.stats()["in_flight"])
"""


def test_unread_exception_is_printed(start_method, strategy, tmp_path) -> None:
    """The program deleted the context: only the worker's standard error is left."""
    program = write_program(tmp_path, LETS_GO)
    done = run_program(program, start_method, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert "WithTensor: unread error" in done.stderr
    assert done.stdout == "1 0\n", "the exit code; the tensor of the exception was released"


def return_after_event(rank, event, tensor):
    assert event.wait(60)
    return tensor + 1


def test_unread_value_is_released(start_method, strategy) -> None:
    method = mp.get_context(start_method)
    event, tensor = method.Event(), st.ones(3)
    before = st.stats()
    context = mp.start_processes(return_after_event, (event, tensor), join=False, start_method=start_method)
    (process,) = context.processes
    del context
    event.set()
    end_of(process)
    assert process.exitcode == 0
    assert st.stats()["in_flight"] == before["in_flight"]
    assert st.stats()["blocks"] == before["blocks"]
