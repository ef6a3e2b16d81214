"""From what happened to a worker to the exception that tells it."""

from __future__ import annotations

from shmtensor.multiprocessing._facts import Facts
from shmtensor.multiprocessing._message import loads
from shmtensor.multiprocessing._report import Exited, Raised
from shmtensor.multiprocessing._watch import Worker, signal_name
from shmtensor.multiprocessing.failures import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
)

__all__ = ["explain"]

_MAIN = ("'__main__'", "'__mp_main__'")


def explain(worker: Worker, memory_kills: int) -> ProcessException:
    """Return the exception for a worker that has failed.

    `memory_kills` is how many processes the kernel killed for lack of memory while the workers ran.
    """
    pid = worker.process.pid
    assert pid is not None
    if isinstance(worker.report, Raised):
        return _explain_raised(worker, pid, worker.report)
    code = worker.exitcode
    if isinstance(worker.report, Exited):  # which it did, even if it was stopped on its way out
        code = worker.report.code if isinstance(worker.report.code, int) else 1
    name = None if code is None else signal_name(code)
    if code is None:
        text = "did not end although it was killed: it waits in the kernel, as for a disk or a driver"
        return ProcessExitedException(f"process {worker.rank} {text}", worker.rank, pid, 1)
    if worker.report is None and worker.code_was_taken:
        text = (
            "ended without a word, and how is unknown: something else in this process took its exit code "
            "(SIGCHLD is ignored, or its handler waits for any child; let it wait for its own by their pids)"
        )
    elif worker.lived_on:
        text = (
            f"closed the pipe of its report and did not end, as after os.closerange; it was ended by {name} "
            "(close only the descriptors that you opened)"
        )
    elif name is not None:
        text = f"terminated with signal {name}{_reason_of_kill(name, memory_kills)}"
    else:
        text = f"terminated with exit code {code}{_reason_of_exit(worker)}"
    error = ProcessExitedException(f"process {worker.rank} {text}", worker.rank, pid, code, name)
    if worker.report is None and code == 1:
        _tell_of_main(error, worker)
    return error


def _explain_raised(worker: Worker, pid: int, report: Raised) -> ProcessException:
    text = f"\n\n-- Process {worker.rank} terminated with the following error:\n{report.text}"
    error = ProcessRaisedException(text, worker.rank, pid)
    if report.content is not None:
        try:
            cause = loads(report.content)
        except Exception:
            return error  # its class cannot be imported or called here: the text has all
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        if isinstance(cause, AttributeError) and any(name in str(cause) for name in _MAIN):
            _tell_of_main(error, worker)
    return error


def _reason_of_kill(name: str, memory_kills: int) -> str:
    if name == "SIGKILL" and memory_kills > 0:
        return (
            f"; likely by the kernel for lack of memory: the control group counts {memory_kills} such kills "
            "since the workers started (raise its memory limit, or start fewer workers)"
        )
    return ""


def _reason_of_exit(worker: Worker) -> str:
    if isinstance(worker.report, Exited):
        if isinstance(worker.report.code, str):
            return f": sys.exit({worker.report.code!r})"
        return " by sys.exit"
    if worker.report is not None:
        return " after its function had returned: look at its standard error"
    if worker.exitcode == 0:
        return " before its function returned, as by os._exit(0)"
    return (
        " without an exception, as by os._exit; or it failed before its function was called: look at its "
        "standard error"
    )


def _tell_of_main(error: ProcessException, worker: Worker) -> None:
    method = worker.process._start_method
    if method in {"spawn", "forkserver"}:
        server = "" if Facts.of_this_process().server else " (pip install 'shmtensor[server]')"
        error.add_note(
            f"a worker started by {method} imports the main module, which must be a file (not a notebook, "
            "not standard input), and finds functions in it by their names; what starts workers belongs "
            f'below `if __name__ == "__main__":`. start_method="server"{server} needs none of this'
        )
