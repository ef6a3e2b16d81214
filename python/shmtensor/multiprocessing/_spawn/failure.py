"""The exception that describes how a worker failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shmtensor.multiprocessing._pickles import loads_or_release
from shmtensor.multiprocessing._spawn.report import Exited, Raised
from shmtensor.multiprocessing.errors import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    signal_name,
)
from shmtensor.multiprocessing.start_method import advice_on_main

if TYPE_CHECKING:
    from shmtensor.multiprocessing._spawn.monitor import Worker

_MAIN = ("'__main__'", "'__mp_main__'")


def failure_of(worker: Worker, oom_kills: int) -> ProcessException:
    """Return the exception for a worker that has failed.

    `oom_kills` is the number of processes that the kernel killed for lack of memory while the workers ran.
    """
    pid = worker.process.pid
    assert pid is not None
    if isinstance(worker.report, Raised):
        return _failure_raised(worker, pid, worker.report)
    code = worker.exitcode
    if isinstance(worker.report, Exited):  # even if it was killed while it exited
        code = worker.report.code if isinstance(worker.report.code, int) else 1
    name = None if code is None else signal_name(code)
    if code is None:
        text = "did not exit after SIGKILL (blocked in the kernel, for example on disk or driver I/O)"
        return ProcessExitedException(f"process {worker.rank} {text}", worker.rank, pid, 1)
    if worker.report is None and worker.exit_code_lost:
        text = (
            "exited without a report; its exit status was lost: SIGCHLD is ignored, or its handler waits for "
            "any child (let the handler wait for its own children by their pids)"
        )
    elif worker.closed_pipe_and_ran_on:
        text = (
            f"closed its report pipe but kept running, as after os.closerange; it was ended by {name} "
            "(close only descriptors that you opened)"
        )
    elif name is not None:
        text = f"terminated with signal {name}{_reason_of_kill(name, oom_kills)}"
    else:
        text = f"terminated with exit code {code}{_reason_of_exit(worker)}"
    error = ProcessExitedException(f"process {worker.rank} {text}", worker.rank, pid, code, name)
    if worker.report is None and code == 1:
        _add_note_on_main(error, worker)
    return error


def _failure_raised(worker: Worker, pid: int, report: Raised) -> ProcessException:
    text = f"\n\n-- Process {worker.rank} terminated with the following error:\n{report.text}"
    error = ProcessRaisedException(text, worker.rank, pid)
    if report.content is not None:
        try:
            cause = loads_or_release(report.content)
        except (Exception, SystemExit):
            return error  # its class cannot be imported or called here; the text is complete
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        if isinstance(cause, AttributeError) and any(name in str(cause) for name in _MAIN):
            _add_note_on_main(error, worker)
    return error


def _reason_of_kill(name: str, oom_kills: int) -> str:
    if name == "SIGKILL" and oom_kills > 0:
        return (
            f"; probably by the kernel for lack of memory: the control group counts {oom_kills} such kills "
            "since the workers started (raise its memory limit, or start fewer workers)"
        )
    return ""


def _reason_of_exit(worker: Worker) -> str:
    if isinstance(worker.report, Exited):
        if isinstance(worker.report.code, str):
            return f": sys.exit({worker.report.code!r})"
        return " by sys.exit"
    if worker.report is not None:
        return " after its function returned; see its standard error"
    if worker.exitcode == 0:
        return " before its function returned, as by os._exit(0)"
    return " without an exception, as by os._exit, or before its function was called; see its standard error"


def _add_note_on_main(error: ProcessException, worker: Worker) -> None:
    method = worker.process._start_method
    if method in {"spawn", "forkserver"}:
        error.add_note(advice_on_main(method))


def count_oom_kills(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Return how many processes of this control group were killed for lack of memory, None if unknown."""
    try:
        entries = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    counted: int | None = None
    for _, controllers, path in entries:
        if "memory" in controllers.split(","):
            files = [
                root / "memory" / path[1:] / "memory.oom_control",
                root / "memory" / "memory.oom_control",
            ]
        elif not controllers:
            files = [root / path[1:] / "memory.events", root / "memory.events"]
        else:
            continue
        # In a container the path may be that of the host, while the group is the root of the visible tree.
        for file in files:
            count = _field(file, "oom_kill")
            if count is not None:
                counted = (counted or 0) + count
                break
    return counted


def _field(file: Path, name: str) -> int | None:
    try:
        fields = dict(line.split() for line in file.read_text().splitlines())
        return int(fields[name])
    except (OSError, KeyError, ValueError):
        return None
