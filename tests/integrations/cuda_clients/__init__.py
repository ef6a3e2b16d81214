"""Libraries of others that use the driver: how the tests make, view, read and export their memory.

All values are bytes; an object stands for one library in one process.
"""

from __future__ import annotations

import importlib.util
import traceback
from typing import Any

import shmtensor as st
from tests.cuda import workers
from tests.integrations.cuda_clients.bindings import Bindings
from tests.integrations.cuda_clients.core import Core, CoreVirtual
from tests.integrations.cuda_clients.cupy import Cupy
from tests.integrations.cuda_clients.numba import Numba
from tests.integrations.cuda_clients.pycuda import Pycuda

CLIENTS: dict[str, Any] = {
    "bindings": Bindings,
    "core": Core,
    "core-vmm": CoreVirtual,
    "cupy": Cupy,
    "numba": Numba,
    "pycuda": Pycuda,
}


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that contains it
        return False


INSTALLED = [name for name, client in CLIENTS.items() if is_installed(client.module)]


def host(tensor: Any) -> Any:
    """Return the values; a buffer of cuda-core has signed bytes."""
    return tensor.cpu().numpy().view("u1")


class Server:
    """A process that uses a library, and does what it is asked to do."""

    def __init__(self, name: str) -> None:
        self.client = CLIENTS[name]()
        self.kept: list[Any] = []

    def double(self, tensor: Any, how: str) -> Any:
        """View a tensor with the library, and double its values."""
        array = self.client.view(tensor, how)
        values = self.client.read(array)
        self.client.write(array, values * 2)
        return self.client.address(array) == tensor.data_ptr(), values

    def open(self, exported: Any, tensor: Any) -> Any:
        """Open what the library of another process exports, and the same memory by shmtensor."""
        with self.client.opened(exported, tensor.nbytes) as array:
            values, same = self.client.read(array), self.client.address(array) == tensor.data_ptr()
            copy = host(st.asarray(array))
            refused = ""
            try:
                st.asarray(array, copy=False)
            except ValueError as error:
                refused = str(error)
        return values, copy, same, refused, host(tensor)

    def wait(self, event: Any) -> bool:
        """Let a stream of the library wait for an event of shmtensor."""
        stream = self.client.stream()
        event.wait(stream)
        self.client.finish(stream)
        return event.query()

    def wait_for(self, exported: Any) -> str:
        self.client.wait_for(exported)
        return "done"

    def produce(self, values: Any) -> Any:
        """Make an array, and share it."""
        self.kept.append(self.client.make(values))
        return st.asarray(self.kept[-1], copy=False)

    def hold(self, tensor: Any) -> Any:
        self.kept.append(self.client.view(tensor, "cai"))
        return self.client.read(self.kept[-1])


def serve(inbox: Any, outbox: Any) -> None:
    server = Server(inbox.get())
    while (item := inbox.get()) is not None:
        what, *arguments = item
        try:
            outbox.put((what, getattr(server, what)(*arguments)))
        except BaseException:
            outbox.put(("error", traceback.format_exc()))
        del item, arguments


class Child(workers.Pair):
    """Another process with the same library."""

    def __init__(self, name: str) -> None:
        super().__init__(serve)
        self.put(name)

    def ask(self, what: str, *arguments: Any) -> Any:
        self.put((what, *arguments))
        answered, result = self.get()
        assert answered == what, result
        return result
