"""Hints for attributes that NumPy's arrays have and tensors do not."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np


class _MissingAttribute:
    """A descriptor that raises AttributeError. `__getattr__` would slow down the attributes that exist."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = f"Not an attribute: use .numpy().{name}, over the same memory."

    def __get__(self, tensor: Any, kind: type) -> NoReturn:
        msg = f"{kind.__name__!r} object has no attribute {self._name!r}"
        if tensor is not None:
            way = "numpy" if tensor._released or tensor.device == "cpu" else "cupy"
            msg += f": use .{way}().{self._name}, over the same memory"
        raise AttributeError(msg, name=self._name, obj=kind if tensor is None else tensor)


class HidesHints(type):
    """A class whose hints neither `help` nor completion lists."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(vars(cls).get(name), _MissingAttribute)]


def add_attribute_hints(kind: type) -> frozenset[str]:
    """Add hints for all public names of arrays that a class of tensors lacks; return these names."""
    missing = [name for name in dir(np.ndarray) if not name.startswith("_") and not hasattr(kind, name)]
    for name in missing:
        setattr(kind, name, _MissingAttribute(name))
    return frozenset(missing)
