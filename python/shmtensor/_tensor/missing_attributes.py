"""Hints for attributes that arrays of NumPy, or tensors of torch, have and tensors do not."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

_OF_TORCH = {"cuda": '.to("cuda")', "numel": ".size", "unsqueeze": "None as an index, as in a[None]"}


class _MissingAttribute:
    """A descriptor that raises AttributeError. `__getattr__` would slow down the attributes that exist."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._way = _OF_TORCH.get(name)
        self.__doc__ = f"Not an attribute: use {self._way or f'.numpy().{name}, over the same memory'}."

    def __get__(self, tensor: Any, kind: type) -> NoReturn:
        msg = f"{kind.__name__!r} object has no attribute {self._name!r}"
        if self._way is not None:
            msg += f": use {self._way}"
        elif tensor is not None:
            way = "numpy" if tensor._released or tensor.device == "cpu" else "cupy"
            msg += f": use .{way}().{self._name}, over the same memory"
        raise AttributeError(msg, name=self._name, obj=kind if tensor is None else tensor)


class HidesHints(type):
    """A class whose hints neither `help` nor completion lists."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(vars(cls).get(name), _MissingAttribute)]


def add_attribute_hints(kind: type) -> frozenset[str]:
    """Add hints for all public names of arrays that a class of tensors lacks; return the names with hints."""
    public = [name for name in dir(np.ndarray) if not name.startswith("_")]
    missing = [name for name in (*public, *_OF_TORCH) if not hasattr(kind, name)]
    for name in missing:
        setattr(kind, name, _MissingAttribute(name))
    return frozenset(missing)
