"""Integrations: other libraries' objects travel as handles, after one call of `install`.

There is one module for each library, named after the library's package, with the functions
``install(**options)`` and ``uninstall()``; ``KNOWN`` in `_registry` lists them. The sender decides how an
object travels: a handle names the functions that rebuild it, so a receiver needs no integration. An
integration must answer three questions: can the receiver map the memory (if not, send bytes), how many
receivers are there (several must not write), and are the bytes kept in a file or a cache (then never send a
handle)? So it registers with a transport, never with `copyreg` or ``__reduce__``. A module that unpickling
in a child may import first must not import the library before the library's package has: that import
installs the integration, which imports the module.
"""

from __future__ import annotations

from shmtensor.integrations._registry import install, uninstall

__all__ = ["install", "uninstall"]
__dir__ = __all__.copy
