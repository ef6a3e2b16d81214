"""What the containers answer to calls that would change a list or dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

_REMEDY = "it never changes; make a new one, or keep what changes in a tensor"


class Unchanging:
    """A container that is stored once and never changes."""

    __slots__ = ()

    if not TYPE_CHECKING:  # to a type checker, these are errors anyway

        def __getattr__(self, name: str) -> Any:
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            if hasattr(list, name) or hasattr(dict, name):
                msg += f": {_REMEDY}"
            raise AttributeError(msg, name=name, obj=self)

        def __setitem__(self, key: object, value: object) -> NoReturn:
            msg = f"cannot change a {type(self).__name__}: {_REMEDY}"
            raise TypeError(msg)

        def __delitem__(self, key: object) -> NoReturn:
            self[key] = None
