"""Start methods: checks the one that the program asked for, or chooses one for ``"auto"``.

docs/guide/starting-workers.md contains the rules as a table; a test compares the two.
"""

from __future__ import annotations

import functools
import importlib.util
import multiprocessing
import os
import sys
import warnings
from typing import NamedTuple

import shmtensor._core as _core
from shmtensor.multiprocessing._default_method import get_default
from shmtensor.multiprocessing._lifetime.native_threads import other_threads_run

__all__ = ["Decision", "Facts", "decide", "explain_start_method", "own_process", "resolve"]
__dir__ = __all__.copy

VARIABLE = "SHMTENSOR_START_METHOD"
_METHODS = ("fork", "spawn", "forkserver", "server")
_HOW = (
    f"To choose yourself, pass a start method by name or set {VARIABLE}; "
    "shmtensor.multiprocessing.explain_start_method() prints all the facts."
)
_owned = False
_warned = False


class Facts(NamedTuple):
    """The facts about this process that decide what ``"auto"`` means."""

    owned: bool
    cuda: bool
    threads: bool
    main: bool
    default: str
    server: bool

    @classmethod
    def of_this_process(cls) -> Facts:
        """Collect the facts."""
        # Without `allow_none`, the call would fix the default. The first method is the platform's.
        default = (
            multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        )
        cuda = cuda_is_initialised()
        return cls(
            owned=_owned,
            cuda=cuda,
            threads=other_threads_run(may_fork=default == "fork" and not cuda),
            main=_main_can_be_imported(),
            default=default,
            server=server_is_available(),
        )

    def lines(self) -> list[str]:
        """Return one line of text for each fact."""
        version = ".".join(map(str, sys.version_info[:3]))
        return [
            f"the program has {'' if self.owned else 'not '}declared that it owns the process (own_process)",
            f"CUDA is {'' if self.cuda else 'not '}initialised in this process",
            f"{'threads' if self.threads else 'no threads'} other than the main one run, of Python or native",
            f"__main__ can{'' if self.main else 'not'} be imported by a worker",
            f"the default of this Python ({version}) or of this program is {self.default}",
            f"the start method server is {'' if self.server else 'not '}available (it needs cloudpickle)",
        ]


class Decision(NamedTuple):
    """The start method that ``"auto"`` means in a process, and why."""

    method: str
    reason: str
    replaced: bool = False  # the default would have failed


def own_process() -> None:
    """Declare that this program owns its process: workers may import its main module again.

    Such a program keeps what must run only once below ``if __name__ == "__main__"``. A library should not
    call this, since it does not know that of the programs that import it.
    """
    global _owned
    _owned = True


def decide(facts: Facts) -> Decision:
    """Choose a start method from the facts alone."""
    if facts.owned and facts.main:
        return Decision("spawn", "the program owns the process, and a worker can import its main module")
    if facts.default == "fork":
        if not (facts.cuda or facts.threads):
            return Decision("fork", "it is the default, and safe in this process")
        why = "CUDA is initialised" if facts.cuda else "other threads run"
        return Decision(
            "server" if facts.server else "spawn",
            f"{why} in this process, so that forked workers would fail or hang",
            replaced=True,
        )
    if facts.main or not facts.server:
        return Decision(facts.default, "it is the default, and its workers inherit nothing")
    return Decision("server", f"workers started by {facts.default} could not import the main module")


def resolve(asked: str | None) -> str | None:
    """Return the start method that was asked for: by name, by ``"auto"``, by the environment.

    Returns
    -------
    str or None
        None if nothing was asked for: the default applies.

    Raises
    ------
    ValueError
        If the name is unknown, or is fork in a process where CUDA is initialised.
    """
    source = f"start_method={asked!r}"
    if asked is None or asked == "auto":
        chosen = os.environ.get(VARIABLE)
        if chosen:
            asked, source = chosen, f"{VARIABLE}={chosen}"
    if asked is None:
        return None
    if asked == "auto":
        return _resolve_auto()
    if asked not in _METHODS:
        msg = f"{source}: cannot find context for {asked!r}; choose one of {', '.join(_METHODS)}, auto"
        raise ValueError(msg)
    if asked == "fork" and cuda_is_initialised():
        msg = (
            f"{source}: CUDA is initialised in this process, and cannot be used in workers forked from it; "
            "use spawn, forkserver or server, or start the workers before CUDA is first used"
        )
        raise ValueError(msg)
    return asked


def _resolve_auto() -> str:
    global _warned
    facts = Facts.of_this_process()
    decision = decide(facts)
    if decision.replaced and not _warned:
        _warned = True
        msg = (
            f"workers are started by {decision.method} instead of {facts.default}: {decision.reason}. {_HOW}"
        )
        warnings.warn(msg, stacklevel=5)
    return decision.method


def resolve_default() -> str | None:
    """Return the start method that the default means, or None if the standard library's default applies."""
    return resolve(get_default())


def resolve_or_default(asked: str | None = None) -> str:
    """Return the start method that was asked for, or the default, which this fixes if no method was set."""
    method = resolve(get_default() if asked is None else asked)
    method = method or multiprocessing.get_context(None).get_start_method()
    if method == "server":
        _check_server()
    return method


def _check_server() -> None:
    for available, what in (
        (_core.has_pidfd(), "pidfds: Linux 5.3, and pidfd_open allowed by the seccomp profile"),
        (os.path.exists("/proc/self/status"), "/proc, which is not mounted here"),
    ):
        if not available:
            msg = f"the start method 'server' needs {what}; choose spawn or forkserver"
            raise ValueError(msg)


def server_is_available() -> bool:
    """Return True if the start method ``"server"`` can send objects by value."""
    return importlib.util.find_spec("cloudpickle") is not None


@functools.cache
def advice_on_main(method: str) -> str:
    """Return what a worker of the start method needs of the main module, where it did not find something."""
    server = "" if server_is_available() else " (pip install cloudpickle)"
    if method == "fork":
        needs = "a forked worker has what the main module contained when it was started"
    else:
        needs = (
            f"a worker started by {method} imports the main module, which must be a file (not a notebook, "
            "standard input, or a package's `__main__.py`), and finds functions in it by their names; keep "
            'code that starts workers below `if __name__ == "__main__":`'
        )
    return f'{needs}. The start method "server"{server} needs none of this'


def explain_start_method() -> None:
    """Print which start method ``"auto"`` chooses in this process, and the facts that decide it."""
    facts = Facts.of_this_process()
    decision = decide(facts)
    chosen = os.environ.get(VARIABLE)
    if chosen and chosen != "auto":
        first = f"start method: {chosen}, because {VARIABLE} is set to it"
    else:
        first = f"start method: {decision.method}, because {decision.reason}"
    print("\n".join([first, *(f"  - {line}" for line in facts.lines())]))  # noqa: T201  # its purpose


def cuda_is_initialised() -> bool:
    """Return True if this process has initialised CUDA (or ROCm), through any library."""
    # Another thread may be about to import torch.
    is_initialized = getattr(sys.modules.get("torch.cuda"), "is_initialized", None)
    if is_initialized is not None and is_initialized():
        return True
    # The driver opens this file when it is initialised, not before; NVML, which may be forked, does not.
    return any(_is_open(name) for name in ("/dev/nvidia-uvm", "/dev/kfd"))


def _is_open(name: str) -> bool:
    try:
        entries = list(os.scandir("/proc/self/fd"))
    except OSError:  # /proc is not mounted: unknown
        return False
    for entry in entries:
        try:
            if os.readlink(entry.path) == name:  # a path that need not exist
                return True
        except OSError:  # noqa: PERF203  # the listing's own descriptor
            continue
    return False


def _main_can_be_imported() -> bool:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m; of a package or folder, it is the __main__.py, which no worker imports
        name: str = spec.name
        return name.rpartition(".")[2] != "__main__"
    path = getattr(main, "__file__", None)
    return path is not None and os.path.exists(path)
