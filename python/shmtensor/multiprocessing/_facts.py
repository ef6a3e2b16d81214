"""What a start method depends on, as far as a process can see it."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Facts", "cuda_is_initialised", "own_process"]

_owned = False


def own_process() -> None:
    """Say that this program owns its process: its main module may be imported again by workers.

    A program that does so keeps what shall run once below ``if __name__ == "__main__"``. Libraries do not
    know that of the programs that import them, and should not call this.
    """
    global _owned
    _owned = True


@dataclass(frozen=True)
class Facts:
    """What is known of this process."""

    owned: bool
    cuda: bool
    threads: bool
    main: bool
    default: str
    server: bool

    @classmethod
    def of_this_process(cls) -> Facts:
        """Look."""
        return cls(
            owned=_owned,
            cuda=cuda_is_initialised(),
            threads=threading.active_count() > 1,
            main=_main_can_be_imported(),
            default=_default(),
            server=importlib.util.find_spec("cloudpickle") is not None,
        )

    def lines(self) -> list[str]:
        """Say each in words."""
        version = ".".join(map(str, sys.version_info[:3]))
        return [
            f"the program {'said' if self.owned else 'did not say'} that it owns the process (own_process)",
            f"CUDA is {'' if self.cuda else 'not '}initialised in this process",
            f"{'threads' if self.threads else 'no threads'} other than the main one run",
            f"__main__ can{'' if self.main else 'not'} be imported by a worker",
            f"the default of this Python ({version}) or of this program is {self.default}",
            f"the start method server is {'' if self.server else 'not '}available (it needs cloudpickle)",
        ]


def cuda_is_initialised() -> bool:
    """Whether this process has initialised CUDA (or ROCm), by whatever library."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return True
    # The driver opens this file when it is initialised, not before; NVML, which may be forked, does not.
    return any(_is_open(name) for name in ("/dev/nvidia-uvm", "/dev/kfd"))


def _is_open(name: str) -> bool:
    try:
        entries = list(Path("/proc/self/fd").iterdir())
    except OSError:  # /proc is not mounted: then nobody can tell
        return False
    for entry in entries:
        try:
            if os.readlink(entry) == name:  # noqa: PTH115  # a path that need not exist
                return True
        except OSError:  # noqa: PERF203  # the listing's own descriptor
            continue
    return False


def _main_can_be_imported() -> bool:
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return True  # python -m
    path = getattr(main, "__file__", None)
    return path is not None and Path(path).exists()


def _default() -> str:
    chosen: str | None = multiprocessing.get_start_method(allow_none=True)
    # The first is the platform's. Asking `get_start_method` without `allow_none` would fix it.
    return chosen if chosen is not None else multiprocessing.get_all_start_methods()[0]
