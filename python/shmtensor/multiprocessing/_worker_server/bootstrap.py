"""The first steps of a worker that the worker server has forked."""

from __future__ import annotations

import atexit
import io
import os
import pickle
import random
import signal
import sys
import types
from multiprocessing import process, resource_tracker, spawn, util
from typing import Any

from shmtensor.multiprocessing._by_value import reducer
from shmtensor.multiprocessing._default_method import set_default

GO = b"g"  # sent through the sentinel's pipe once the client has the pidfd
_handlers: dict[int, Any] = {}
_inherited: list[int] = []


class Preparation:
    """The state of the program at the time of the request, which the worker takes over."""

    def __init__(self, name: str, code_files: list[bytes], standard: list[int]) -> None:
        self.spawning = spawn.get_preparation_data(name)
        for key in ("init_main_from_name", "init_main_from_path", "start_method"):
            self.spawning.pop(key, None)
        self.environment = dict(os.environb)
        self.umask = _umask()
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.code_files = code_files
        self.standard = standard

    def apply(self, code_files: list[int], standard: list[int]) -> None:
        """Take over the state, in the worker."""
        for theirs, fd in zip(self.standard, standard, strict=True):
            os.dup2(fd, theirs)
            os.close(fd)
        os.environb.clear()
        os.environb.update(self.environment)
        os.umask(self.umask)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        spawn.prepare(self.spawning)
        set_default("server")
        reducer.become_worker(dict(zip(self.code_files, code_files, strict=True)))


def _umask() -> int:
    with open("/proc/self/status") as file:  # os.umask would change it
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask"))


_NOT_HERE = (
    "module '__main__': workers of the start method 'server' do not import it; move the definition to a "
    "module, or choose another start method"
)


class _Main(types.ModuleType):
    """A placeholder for the program's main module, which is not imported."""

    def __repr__(self) -> str:  # part of the message when pickle does not find a name
        return f"<{_NOT_HERE}>"

    def __getattr__(self, name: str) -> Any:
        msg = f"there is no {name!r} in {_NOT_HERE}"
        raise AttributeError(msg)


def remember(number: int, handler: Any) -> None:
    """Store a signal handler that the server replaces and `run` restores in a worker."""
    _handlers[number] = handler


def inherited(index: int) -> int:
    """Return the descriptor that was given to this worker as number `index`."""
    return _inherited[index]


def run(fds: list[int]) -> None:
    """Run a worker, and exit."""
    code = 1
    try:
        for number, handler in _handlers.items():
            signal.signal(number, handler)
        atexit._clear()
        atexit.register(util._exit_function)  # type: ignore[attr-defined]
        message, status, sentinel, tracker, *rest = fds
        os.close(status)
        resource_tracker._resource_tracker._fd = tracker  # type: ignore[attr-defined]
        sys.modules["__main__"] = sys.modules["__mp_main__"] = _Main("__main__")
        _seed()
        code = _load(message, sentinel, rest)._bootstrap(sentinel)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        util._flush_std_streams()  # type: ignore[attr-defined]
        os._exit(code)


def _load(message: int, sentinel: int, fds: list[int]) -> Any:
    with os.fdopen(message, "rb") as file:
        file.seek(0)
        content = io.BytesIO(file.read())
    current: Any = process.current_process()
    current._inheriting = True  # permits what is sent only at a start, such as authentication keys
    try:
        preparation: Preparation = pickle.load(content)
        standard = len(preparation.standard)
        others = standard + len(preparation.code_files)
        preparation.apply(fds[standard:others], fds[:standard])
        _inherited[:] = fds[others:]
        if not os.read(sentinel, len(GO)):
            sys.exit(1)  # the client does not know of this worker
        started: process.BaseProcess = pickle.load(content)
    finally:
        del current._inheriting
    return started


def _seed() -> None:
    """Seed the random generators: all forks of one process would draw the same numbers."""
    random.seed()
    for name in ("numpy", "torch"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "random") and hasattr(module.random, "seed"):
            module.random.seed()
