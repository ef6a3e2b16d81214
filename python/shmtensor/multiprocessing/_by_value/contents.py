"""What a program may assign again in a function or class that it has sent: cells, globals and attributes.

It is compared by identity. References are weak where possible: a lambda with a tensor, for example, must not
outlive its owner's reference.
"""

from __future__ import annotations

import dis
import weakref
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Reference: TypeAlias = "Callable[[], Any]"
NOTHING = object()  # the value of a name that is not defined
_OF_GLOBALS = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"}  # the globals that cloudpickle includes


def contents(obj: Any, *, with_globals: bool = False) -> dict[Any, Any]:
    """Return the cells of a function, with its globals if that is wanted, or the attributes of a class.

    Of these, not what Python and enums add, nor descriptors: they would refer to the class, and a reference
    to them keep it alive.
    """
    if isinstance(obj, type):
        return {
            name: value
            for name, value in vars(obj).copy().items()  # which another thread may change
            if not (name.startswith("_") and name.endswith("_"))
            and (isinstance(value, FunctionType) or not hasattr(type(value), "__get__"))
        }
    if not isinstance(obj, FunctionType):
        return {}
    names = global_names(obj.__code__) if with_globals else ()
    found: dict[Any, Any] = {name: obj.__globals__.get(name, NOTHING) for name in names}
    for index, cell in enumerate(obj.__closure__ or ()):
        with suppress(ValueError):  # it is still empty
            found[index] = cell.cell_contents
    return found


@lru_cache(maxsize=256)
def global_names(code: CodeType) -> frozenset[str]:
    """Return the names of globals that a function uses, defined or not."""
    own = (part.argval for part in dis.get_instructions(code) if part.opname in _OF_GLOBALS)
    inner = (global_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return frozenset(own).union(*inner)


def reference(value: Any) -> Reference:
    """Return a weak reference to a value if its type allows that, else a strong one."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def refers_to(made: Reference, value: Any) -> bool:
    """Return True if the reference is to this value. A dead weak reference returns None, too."""
    return made() is value and (value is not None or not isinstance(made, weakref.ref))
