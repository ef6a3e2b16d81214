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
from multiprocessing import process, spawn, util
from typing import Any

from shmtensor.multiprocessing import _by_value, _stdlib
from shmtensor.multiprocessing.context import default_context

__all__ = ["GO", "Preparation", "inherited", "remember", "run"]

GO = b"g"  # comes by the sentinel once the process that asked for a worker knows of it
_handlers: dict[int, Any] = {}
_inherited: list[int] = []


class Preparation:
    """What a worker takes over from the moment at which it was asked for."""

    def __init__(self, name: str, libraries: list[bytes], standard: list[int]) -> None:
        self.spawning = spawn.get_preparation_data(name)
        for key in ("init_main_from_name", "init_main_from_path", "start_method"):
            self.spawning.pop(key, None)
        self.environment = dict(os.environb)
        self.umask = _umask()
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.libraries = libraries
        self.standard = standard

    def apply(self, libraries: list[int], standard: list[int]) -> None:
        """Take it over, in the worker."""
        for theirs, fd in zip(self.standard, standard, strict=True):
            os.dup2(fd, theirs)
            os.close(fd)
        os.environb.clear()
        os.environb.update(self.environment)
        os.umask(self.umask)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        spawn.prepare(self.spawning)
        default_context.follow("server")
        _by_value.become_worker(dict(zip(self.libraries, libraries, strict=True)))


def _umask() -> int:
    with open("/proc/self/status") as file:  # os.umask would have to change it  # noqa: PTH123
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask"))


_NOT_HERE = (
    "module '__main__' of a worker of the start method 'server', which does not import it: put what is "
    "looked for into a module, or choose another start method"
)


class _Main(types.ModuleType):
    """Stands for the program's main module, which is not imported."""

    def __repr__(self) -> str:  # what pickle says it has not found a name in
        return f"<{_NOT_HERE}>"

    def __getattr__(self, name: str) -> Any:
        msg = f"there is no {name!r} in {_NOT_HERE}"
        raise AttributeError(msg)


def remember(number: int, handler: Any) -> None:
    """Note a signal handler that the server replaces and a worker has back."""
    _handlers[number] = handler


def inherited(index: int) -> int:
    """Return the descriptor that was given to this worker as number `index`."""
    return _inherited[index]


def run(fds: list[int]) -> None:
    """Be a worker, to the end."""
    code = 1
    try:
        for number, handler in _handlers.items():
            signal.signal(number, handler)
        atexit._clear()
        atexit.register(_stdlib.run_exit_functions)
        message, status, sentinel, tracker, *rest = fds
        os.close(status)
        _stdlib.adopt_resource_tracker(tracker)
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
    _stdlib.set_inheriting(True)
    try:
        preparation: Preparation = pickle.load(content)
        standard = len(preparation.standard)
        others = standard + len(preparation.libraries)
        preparation.apply(fds[standard:others], fds[:standard])
        _inherited[:] = fds[others:]
        if not os.read(sentinel, len(GO)):
            sys.exit(1)  # who asked for this worker did not come to know of it
        started: process.BaseProcess = pickle.load(content)
    finally:
        _stdlib.set_inheriting(False)
    return started


def _seed() -> None:
    """Forks of one process would all draw the same numbers."""
    random.seed()
    for name in ("numpy", "torch"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "random") and hasattr(module.random, "seed"):
            module.random.seed()
