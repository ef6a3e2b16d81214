"""The integrations that exist, those that the program has requested, and those that are installed.

To add one: its module, its options in `KNOWN`, its layer in pyproject.toml, a dependency group
``integrations-<name>``, tests ``tests/integrations/test_<name>_*.py`` that conftest.py skips where the
library is missing, and a page of the guide.
"""

from __future__ import annotations

import importlib
import os
import sys
from multiprocessing.process import BaseProcess
from typing import Any

from shmtensor._fork import RenewedLock
from shmtensor._import_hook import when_imported
from shmtensor.integrations._children import pass_on_to_children, release_unloaded_arguments

VARIABLE = "SHMTENSOR_INSTALL"

KNOWN: dict[str, frozenset[str]] = {
    "cupy": frozenset(),
    "dask": frozenset(),
    "jax": frozenset(),
    "joblib": frozenset(),
    "loky": frozenset(),
    "multiprocess": frozenset(),
    "pandas": frozenset(),
    "polars": frozenset(),
    "pyarrow": frozenset(),
    "ray": frozenset(),
    "torch": frozenset({"alias", "cuda"}),
}
"""The options of each integration, by the name of the library's package."""

_PARTS = {"ray": ("ray", "_ray.torch_tensors")}
"""The modules of an integration, where it has several."""

_PACKAGES = {"dask": ("distributed",), "_ray.torch_tensors": ("ray", "torch")}
"""The packages whose import sets a module up, unless it is the library's package."""

_requested: dict[str, dict[str, Any]] = {}
_installed: dict[str, dict[str, Any]] = {}
_lock = RenewedLock()  # no import while it is held: a thread that imports a library calls `_apply`


def install(*names: str, **options: Any) -> None:
    """Let objects of other libraries travel as handles, in this process and in children that it starts.

    A library that is not imported yet is set up when the program imports it. Children of every start method
    have the same integrations, also those that other libraries start through `multiprocessing`. The
    environment variable ``SHMTENSOR_INSTALL``, with names separated by commas, has the same effect when
    shmtensor is imported. Repeated calls change nothing.

    Parameters
    ----------
    *names
        The libraries, by the names of their packages; none: all that are known.
    **options
        Options of one library. ``install("torch", alias=True)``: a CPU tensor in private memory moves into
        shared memory when it is sent, so that sender and receiver see each other's writes, as with torch
        alone. By default a copy is sent, and the sender's tensor does not change. With ``cuda=True`` CUDA
        tensors in memory of torch are sent, too: a copy on the GPU, or with `alias` the memory where it is.
        By default torch sends them.

    Raises
    ------
    ValueError
        If a name is unknown.
    TypeError
        If a name is not a string, an option is unknown, or there are options and not exactly one name.
    RuntimeError
        If the installed version of a library lacks what an option needs.

    See Also
    --------
    uninstall : the reverse.

    Examples
    --------
    >>> import shmtensor as st
    >>> st.install("torch")
    """
    _check(names, options)
    with _lock():
        for name in names or KNOWN:
            if names or name not in _requested:  # without names, options that were set before remain
                _requested[name] = options
    pass_on_to_children(state)
    release_unloaded_arguments(BaseProcess)
    for name in names or KNOWN:
        for part in _PARTS.get(name, (name,)):
            _when_all_imported(_PACKAGES.get(part, (part,)), name, part)


def uninstall(*names: str) -> None:
    """Restore how libraries send their objects, in this process and in children that it starts from now on.

    Parameters
    ----------
    *names
        As in `install`; none: all.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    _check(names, {})
    with _lock():
        for name in names or KNOWN:
            _requested.pop(name, None)
            for part in _PARTS.get(name, (name,)):
                _remove(part)


def is_requested(name: str) -> bool:
    """Return True if a library's integration is installed, or will be when the library is imported."""
    with _lock():
        return name in _requested


def install_from_environment() -> None:
    """Install the libraries that the environment variable names."""
    names = [name.strip() for name in os.environ[VARIABLE].split(",")]
    try:
        install(*filter(None, names))
    except ValueError as error:
        msg = f"{VARIABLE}={os.environ[VARIABLE]!r}: {error}"
        raise ValueError(msg) from None


def _check(names: tuple[str, ...], options: dict[str, Any]) -> None:
    for name in names:
        if not isinstance(name, str):
            msg = f"names of libraries are strings, each an argument of its own, not {name!r}"
            raise TypeError(msg)
        if name not in KNOWN:
            msg = f"no integration is named {name!r}; there are {', '.join(KNOWN)}"
            if "," in name:
                msg += "; each name is an argument of its own"
            raise ValueError(msg)
    if options and len(names) != 1:
        msg = f"options ({', '.join(options)}) need exactly one library, not {len(names)}"
        raise TypeError(msg)
    for option in options:
        if option not in KNOWN[names[0]]:
            msg = (
                f"{names[0]} has no option {option!r}; it has {', '.join(sorted(KNOWN[names[0]])) or 'none'}"
            )
            raise TypeError(msg)


def _when_all_imported(packages: tuple[str, ...], name: str, part: str) -> None:
    first, *rest = packages
    if rest:
        when_imported(first, _when_all_imported, tuple(rest), name, part)
    else:
        when_imported(first, _apply, name, part)


def _apply(name: str, part: str) -> None:
    """Install a part of an integration, if that is requested and the part not installed like that."""
    module = importlib.import_module(f"shmtensor.integrations.{part}")
    with _lock():
        options = _requested.get(name)
        if options is None or _installed.get(part) == options:
            return
        _remove(part)
        try:
            module.install(**options)
        except BaseException:
            module.uninstall()
            raise
        _installed[part] = options


def _remove(part: str) -> None:
    if _installed.pop(part, None) is not None:
        sys.modules[f"shmtensor.integrations.{part}"].uninstall()


class _State:
    """What a child takes over when it unpickles this object."""

    def __init__(self, requested: dict[str, dict[str, Any]]) -> None:
        self._requested = requested

    def __reduce__(self) -> tuple[Any, ...]:
        return _take_over, (self._requested,)


def state() -> _State | None:
    """Return what children take over; None if nothing is requested."""
    with _lock():
        return _State(dict(_requested)) if _requested else None


def _take_over(requested: dict[str, dict[str, Any]]) -> None:
    for name, options in requested.items():
        install(name, **options)
