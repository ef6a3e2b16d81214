"""What `torch.multiprocessing` makes: the contexts, queues and pipes of `shmtensor.multiprocessing`."""

from __future__ import annotations

import multiprocessing
from multiprocessing import context as std
from typing import Any

import torch.multiprocessing

from shmtensor.integrations._replacements import Replacements

_MADE = ("JoinableQueue", "Pipe", "Queue", "SimpleQueue")
_replaced = Replacements()
uninstall = _replaced.restore


def install() -> None:
    """Replace what the module has from the standard library's."""
    get_context = torch.multiprocessing.get_context
    _replaced.set(torch.multiprocessing, "get_context", lambda method=None: our_context(get_context(method)))
    for name in _MADE:
        _replaced.set(torch.multiprocessing, name, _maker(name))


def _maker(name: str) -> Any:
    def make(*args: Any, **options: Any) -> Any:
        return getattr(our_context(None), name)(*args, **options)

    return make


def our_context(context: Any) -> Any:
    """Return our context of the same start method; one of another library, or a subclass, itself."""
    from shmtensor.multiprocessing import context as ours  # late, since few processes have a queue

    if context is None:
        context = multiprocessing.get_context()
    if type(context) is std.DefaultContext:
        context = context.get_context()
    # By class, since `get_context` refuses to fork where CUDA is initialised: workers that do not use it may.
    known = {
        std.ForkContext: ours.ForkContext,
        std.SpawnContext: ours.SpawnContext,
        std.ForkServerContext: ours.ForkServerContext,
    }
    kind = known.get(type(context))
    return context if kind is None else kind()
