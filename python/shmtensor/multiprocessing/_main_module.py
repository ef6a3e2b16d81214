"""Advice for workers that did not find something in the main module."""

from __future__ import annotations

import functools

from shmtensor.multiprocessing.start_method import server_is_available

__all__ = ["advice_on_main"]


@functools.cache
def advice_on_main(method: str) -> str:
    """Return what a worker of the start method needs of the main module."""
    server = "" if server_is_available() else " (pip install cloudpickle)"
    if method == "fork":
        needs = "a forked worker has what the main module contained when it was started"
    else:
        needs = (
            f"a worker started by {method} imports the main module, which must be a file (not a notebook, "
            "not standard input), and finds functions in it by their names; keep code that starts workers "
            'below `if __name__ == "__main__":`'
        )
    return f'{needs}. The start method "server"{server} needs none of this'
