"""The first tensor of a process registers the reducers: every queue, pipe and pool then sends handles.

Who receives a tensor imports `shmtensor.reducers` by doing so. Who makes one would send it by value, without
a word, if nothing imported that; and importing this package shall register nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import shmtensor._core as _core

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["register_at_first_tensor"]

# All that make a storage out of something else than one: every tensor is a view of such a storage.
_MAKERS = (
    *("borrow_storage", "copy_in", "empty", "new_storage", "storage_from_file"),
    *("cuda_export", "cuda_new_storage"),
)


def register_at_first_tensor() -> None:
    """Stand in for the makers until one is called; that puts them back, so later tensors pay nothing."""
    makers = {name: getattr(_core, name) for name in _MAKERS}

    def register_and(make: Callable[..., Any]) -> Callable[..., Any]:
        def first(*args: Any) -> Any:
            made = make(*args)  # first, for its errors say what is short
            from shmtensor import reducers  # noqa: F401  # registers

            for name, maker in makers.items():
                setattr(_core, name, maker)
            return made

        return first

    for name, maker in makers.items():
        setattr(_core, name, register_and(maker))
