"""What NumPy's arrays have and tensors have not: the error says where it is."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

__all__ = ["point_elsewhere"]


class _Elsewhere:
    """Stands where an attribute is not. `__getattr__` would slow down those that are."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = f"Not here: use .numpy().{name}, over the same memory."

    def __get__(self, tensor: Any, kind: type) -> NoReturn:
        msg = f"{kind.__name__!r} object has no attribute {self._name!r}"
        if tensor is not None:
            way = "numpy" if tensor.device == "cpu" else "cupy"
            msg += f": use .{way}().{self._name}, over the same memory"
        raise AttributeError(msg, name=self._name, obj=kind if tensor is None else tensor)


def point_elsewhere(kind: type) -> frozenset[str]:
    """Give a class of tensors hints for all public names of arrays that it lacks; return these."""
    lacking = [name for name in dir(np.ndarray) if not name.startswith("_") and not hasattr(kind, name)]
    for name in lacking:
        setattr(kind, name, _Elsewhere(name))
    return frozenset(lacking)
