"""What other libraries' children need: integrations, and that unloaded arguments are released.

Integrations reach children that are not forked, also those that never import shmtensor: what the standard
library sends a child first, its preparation data, gets one more entry. Unpickling the entry installs the
integrations, before the child imports its main module and loads the Process object.
"""

from __future__ import annotations

import functools
import os
import pickle
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Executed in the child, whose `sys.path` the standard library sets only afterwards. A child that cannot
# import shmtensor, because another interpreter runs it, does without.
_PROGRAM = """
import pickle, sys
sys.path = path
try:
    pickle.loads(content)
except ImportError:
    pass
"""


def pass_on_to_children(state: Callable[[], object], standard: Any = spawn) -> None:
    """Let each child load the object that `state` returns when the child is started, unless that is None.

    Parameters
    ----------
    state
        Returns an object whose unpickling sets up the child.
    standard
        The module `multiprocessing.spawn`, or that of a library with its own copy of `multiprocessing`.
    """
    if not isinstance(standard.get_preparation_data, _Preparation):
        standard.get_preparation_data = _Preparation(standard.get_preparation_data, state)


def release_unloaded_arguments(process: Any) -> None:
    """Let the arguments that a child does not load end with its Process object, or with this process.

    Parameters
    ----------
    process
        The class `BaseProcess` of `multiprocessing`, or of a library with its own copy.
    """
    start = process.start
    if hasattr(start, "_releases_arguments"):  # a mark, since other programs, too, wrap the method
        return

    @functools.wraps(start)
    def start_in_scope(child: Any) -> None:
        import shmtensor._core as _core

        with _core.SendScope(arguments=True) as message:
            start(child)
            child._message = message

    start_in_scope._releases_arguments = True  # type: ignore[attr-defined]
    process.start = start_in_scope


class _Preparation:
    """The standard library's function `get_preparation_data`, with one more entry in its result."""

    def __init__(self, prepare: Callable[..., dict[str, Any]], state: Callable[[], object]) -> None:
        self._prepare = prepare
        self._state = state

    def __call__(self, *args: Any, **options: Any) -> dict[str, Any]:
        data = self._prepare(*args, **options)
        state = self._state()
        if state is not None:
            data["shmtensor"] = _Entry(data["sys_path"], pickle.dumps(state))
        return data


class _Entry:
    """Unpickled, it is None, and `_PROGRAM` has run."""

    def __init__(self, path: list[str], content: bytes) -> None:
        # A child may start in another directory, and would remember what a relative entry meant there.
        self._path = [os.path.abspath(entry) if os.path.isdir(entry) else entry for entry in path]
        self._content = content

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (_PROGRAM, {"path": self._path, "content": self._content})
