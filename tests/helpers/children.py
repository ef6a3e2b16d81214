"""Programs and processes that tests start; each has a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STAND_IN = Path(__file__).with_name("stand_in")
"""Where processes that tests start find a pytest that is imported faster."""


def clean_environment(**more: str) -> dict[str, str]:
    """Return this environment without variables of shmtensor."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")} | more


def run_command(
    command: list[str], *, timeout: float = 100.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process session and return its output; kill its group at the deadline."""
    process = subprocess.Popen(
        command,
        env=clean_environment(**(env or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"the program hung for {timeout} s; stdout {out!r}, stderr {err!r}") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def run_python(
    code: str, *, timeout: float = 100.0, env: dict[str, str] | None = None, arguments: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program text in a new interpreter, in its own process session, and return its output.

    At the deadline its process group is killed and an AssertionError is raised.
    """
    return run_command([sys.executable, "-c", textwrap.dedent(code), *arguments], timeout=timeout, env=env)


def wait_until(
    condition: Callable[[], bool], timeout: float = 60.0, what: str | Callable[[], str] = "the condition"
) -> None:
    """Poll until the condition holds; raise after `timeout` seconds, and then call `what` for the text."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what() if callable(what) else what}"
        time.sleep(0.01)


def descendants(pid: int) -> set[int]:
    """Return all descendants of a process, without reading every process of the machine as `psutil` does."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in map(int, path.read_text().split()):
                found |= {child, *descendants(child)}
    return found


def managers() -> dict[int, list[str]]:
    """Return the arguments of the running managers, by their pids."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if arguments[0].endswith("shmtensor-manager") and is_running(int(pid)):
            found[int(pid)] = arguments
    return found


def manager_pids(session: str) -> list[int]:
    """Return the pids of the running managers of a session."""
    return [pid for pid, arguments in managers().items() if session in arguments]


def manager_pid(session: str) -> int:
    """Return the pid of the only manager of a session; others that found it running may be about to end."""
    wait_until(lambda: len(manager_pids(session)) == 1, what=lambda: f"one manager: {manager_pids(session)}")
    (pid,) = manager_pids(session)
    return pid


def output(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program has printed; it must have succeeded."""
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def await_end_of_manager(session: str) -> None:
    """Wait until no manager of the session runs."""
    wait_until(lambda: not manager_pids(session), what="the manager to end")


def await_end_of_session(done: subprocess.CompletedProcess[str]) -> None:
    """Check that a program has succeeded and printed only its session, whose manager ends."""
    await_end_of_manager(output(done).strip())


def kill_manager_of(session: str) -> None:
    """Send SIGKILL to the manager and wait until it has ended."""
    pid = manager_pid(session)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in manager_pids(session), what="the manager to be gone")


def fork(work: Callable[[], object]) -> int:
    """Run `work` in a forked child that then exits with 0, or with 1 after an exception; return its id."""
    if (pid := os.fork()) == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def fork_idle(work: Callable[[], object]) -> int:
    """Fork a child that waits after `work`; return its id when it has done that."""
    ours, theirs = os.pipe()

    def work_and_wait() -> None:
        work()
        os.write(theirs, b"!")
        signal.pause()

    pid = fork(work_and_wait)
    os.close(theirs)
    assert os.read(ours, 1) == b"!"
    os.close(ours)
    return pid


def kill(pid: int) -> None:
    """Kill a child and reap it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def end(process, timeout: float = 60.0) -> None:
    """Wait for a child of multiprocessing; kill one that does not end in time, and raise."""
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"{process.name} did not end within {timeout} s")


@contextlib.contextmanager
def running(context: Any, target: Callable[..., object], *arguments: object) -> Iterator[Any]:
    """Start a process, which must end by itself after the block; after an error in the block it is killed."""
    process = context.Process(target=target, args=arguments)
    process.start()
    try:
        yield process
    except BaseException:
        process.kill()
        process.join()
        raise
    end(process)


def write_program(folder: Path, code: str) -> Path:
    """Write a program to a file, which children of spawn and forkserver can import as their main module."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(code))
    return path


def importing_tests() -> dict[str, str]:
    """Return the environment in which a program can import these modules."""
    root = str(Path(__file__).parents[2])
    return {"PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}


def run_program(
    path: Path, *arguments: str, timeout: float = 100.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program file as `run_python` does."""
    return run_command([sys.executable, str(path), *arguments], timeout=timeout, env=env)


def program_beside(test: str, name: str) -> Path:
    """Return the path of a program in the folder `programs` beside a test file."""
    return Path(test).with_name("programs") / f"{name}.py"


def run_beside(
    test: str, name: str, *arguments: str, timeout: float = 100.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder `programs` beside a test file, which can import these modules."""
    env = importing_tests() | (env or {})
    return run_program(program_beside(test, name), *arguments, timeout=timeout, env=env)


EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(
    name: str, *arguments: str, timeout: float = 100.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of `examples`."""
    return run_program(EXAMPLES / name, *arguments, timeout=timeout, env=env)


def assert_equal_output(
    path: Path, *arguments: str, timeout: float, env: dict[str, str] | None = None
) -> None:
    """Run a program file with the last argument "on", then "off": it must succeed and print the same."""
    on, off = (run_program(path, *arguments, state, timeout=timeout, env=env) for state in ("on", "off"))
    assert off.returncode == 0, off.stderr
    assert on.returncode == 0, on.stderr
    assert on.stdout == off.stdout, on


def is_running(pid: int) -> bool:
    """Return True if the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False
