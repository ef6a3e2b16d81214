"""Libraries of others that use the driver: how the tests make, view, read and export their memory.

All values are bytes; an object stands for one library in one process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import traceback
from typing import Any

import numpy as np

import shmtensor as st
from tests.cuda import device, workers


class Bindings:
    """cuda-bindings: the functions of the driver."""

    module = "cuda.bindings"
    views = ("cai",)  # how the library takes over a tensor
    outlives = False  # whether its memory does not end with the process

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self.call(driver.cuInit, 0)
        self.call(driver.cuCtxPushCurrent, self.call(driver.cuDevicePrimaryCtxRetain, 0))

    def call(self, function: Any, *arguments: Any) -> Any:
        code, *results = function(*arguments)
        assert code == self.driver.CUresult.CUDA_SUCCESS, (function.__name__, code)
        return results[0] if results else None

    def make(self, values: Any) -> Any:
        return device.Array(values)

    def view(self, tensor: Any, how: str) -> Any:
        return device.Shown(tensor)

    def address(self, array: Any) -> int:
        return array.__cuda_array_interface__["data"][0]

    def read(self, array: Any) -> Any:
        values = np.empty(array.__cuda_array_interface__["shape"], "u1")
        self.call(self.driver.cuMemcpyDtoH, values.ctypes.data, self.address(array), values.nbytes)
        return values

    def write(self, array: Any, values: Any) -> None:
        self.call(self.driver.cuMemcpyHtoD, self.address(array), values.ctypes.data, values.nbytes)

    def export(self, array: Any) -> Any:
        """Return what another process opens, by the library's own means."""
        return bytes(self.call(self.driver.cuIpcGetMemHandle, self.address(array)).reserved)

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        handle = self.driver.CUipcMemHandle()
        handle.reserved = exported
        pointer = self.call(self.driver.cuIpcOpenMemHandle, handle, 1)
        yield _At(int(pointer), size)
        self.call(self.driver.cuIpcCloseMemHandle, pointer)

    def stream(self) -> Any:
        return int(self.call(self.driver.cuStreamCreate, 1))

    def finish(self, stream: Any) -> None:
        self.call(self.driver.cuStreamSynchronize, stream)

    def export_event(self) -> Any:
        """Return a recorded event, and what another process opens."""
        event = self.call(self.driver.cuEventCreate, 6)
        self.call(self.driver.cuEventRecord, event, 0)
        return event, bytes(self.call(self.driver.cuIpcGetEventHandle, event).reserved)

    def wait_for(self, exported: Any) -> None:
        handle = self.driver.CUipcEventHandle()
        handle.reserved = exported
        event = self.call(self.driver.cuIpcOpenEventHandle, handle)
        self.call(self.driver.cuEventSynchronize, event)
        self.call(self.driver.cuEventDestroy, event)


class _At:
    """Bytes at an address that another object frees."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "stream": 1,
        }


class Core:
    """cuda-core: buffers of a pool for its own IPC, and of cuMemAlloc for what shmtensor exports."""

    module = "cuda.core"
    views = ("cai", "dlpack")
    outlives = False

    def __init__(self) -> None:
        import cuda.core
        from cuda.core._memory._legacy import _SynchronousMemoryResource

        self.core = cuda.core
        self.device = cuda.core.Device(0)
        self.device.set_current()
        self.main = self.device.create_stream()
        self.memory = _SynchronousMemoryResource(0)
        options = cuda.core.DeviceMemoryResourceOptions(ipc_enabled=True, max_size=1 << 24)
        self.pool = cuda.core.DeviceMemoryResource(self.device, options=options)
        self.bindings = Bindings()

    def make(self, values: Any) -> Any:
        buffer = self.memory.allocate(values.nbytes, stream=self.main)
        self.write(buffer, values)
        return buffer

    def view(self, tensor: Any, how: str) -> Any:
        from cuda.core.utils import StridedMemoryView

        if how == "dlpack":
            view = StridedMemoryView.from_dlpack(tensor, stream_ptr=int(self.main.handle))
        else:
            view = StridedMemoryView.from_cuda_array_interface(tensor, stream_ptr=int(self.main.handle))
        return self.core.Buffer.from_handle(view.ptr, tensor.nbytes, owner=view)

    def address(self, array: Any) -> int:
        return int(array.handle)

    def read(self, array: Any) -> Any:
        return self.bindings.read(_At(self.address(array), array.size))

    def write(self, array: Any, values: Any) -> None:
        host = self.core.LegacyPinnedMemoryResource().allocate(values.nbytes, stream=self.main)
        np.from_dlpack(host)[:] = values
        array.copy_from(host, stream=self.main)
        self.main.sync()
        host.close(stream=self.main)

    def export(self, array: Any) -> Any:
        buffer = self.pool.allocate(array.size, stream=self.main)
        self.write(buffer, self.read(array)[: array.size])
        self.exported = buffer
        return buffer

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        yield exported
        exported.close(stream=self.main)
        self.main.sync()

    def stream(self) -> Any:
        return self.device.create_stream()

    def finish(self, stream: Any) -> None:
        stream.sync()

    def export_event(self) -> Any:
        event = self.main.record(options=self.core.EventOptions(ipc_enabled=True))
        return event, event

    def wait_for(self, exported: Any) -> None:
        exported.sync()


class CoreVirtual(Core):
    """cuda-core's virtual memory with descriptors, which outlives its maker."""

    outlives = True

    def __init__(self) -> None:
        super().__init__()
        options = self.core.VirtualMemoryResourceOptions(handle_type="posix_fd")
        self.memory = self.core.VirtualMemoryResource(0, options)

    def make(self, values: Any) -> Any:
        whole = self.memory.allocate(values.nbytes)  # in chunks of 2 MiB
        buffer = self.core.Buffer.from_handle(whole.handle, values.nbytes, owner=whole)
        self.write(buffer, values)
        return buffer


class Numba:
    """numba-cuda: its arrays, and its handles of them."""

    module = "numba_cuda"
    views = ("cai",)
    outlives = False

    def __init__(self) -> None:
        from numba import cuda

        self.cuda = cuda

    def make(self, values: Any) -> Any:
        return self.cuda.to_device(values)

    def view(self, tensor: Any, how: str) -> Any:
        return self.cuda.as_cuda_array(tensor)

    def address(self, array: Any) -> int:
        return array.__cuda_array_interface__["data"][0]

    def read(self, array: Any) -> Any:
        return array.copy_to_host()

    def write(self, array: Any, values: Any) -> None:
        array.copy_to_device(values)

    def export(self, array: Any) -> Any:
        return array.get_ipc_handle()

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        with exported as array:
            yield array

    def stream(self) -> Any:
        self.kept = self.cuda.stream()
        return int(getattr(self.kept.handle, "value", self.kept.handle))

    def finish(self, stream: Any) -> None:
        self.kept.synchronize()


CLIENTS: dict[str, Any] = {"bindings": Bindings, "core": Core, "core-vmm": CoreVirtual, "numba": Numba}
INSTALLED = [name for name, client in CLIENTS.items() if importlib.util.find_spec(client.module)]


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
