"""cuda-core: buffers of a pool, of cuMemAlloc, and of virtual memory."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tests.integrations.cuda_clients.bindings import At, Bindings


class Core:
    """cuda-core: buffers of a pool for its own IPC, and of cuMemAlloc for what shmtensor exports."""

    module = "cuda.core"
    views = ("cai", "dlpack")
    outlives = False
    frees = True

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
        return self.bindings.read(At(self.address(array), array.size))

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
    frees = False  # it releases a handle less often than it retains one, also without shmtensor

    def __init__(self) -> None:
        super().__init__()
        options = self.core.VirtualMemoryResourceOptions(handle_type="posix_fd")
        self.memory = self.core.VirtualMemoryResource(0, options)

    def make(self, values: Any) -> Any:
        whole = self.memory.allocate(values.nbytes)  # in chunks of 2 MiB
        buffer = self.core.Buffer.from_handle(whole.handle, values.nbytes, owner=whole)
        self.write(buffer, values)
        return buffer
