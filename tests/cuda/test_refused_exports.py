"""Arrays of other libraries that the driver does not export, or that claim a wrong size."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array, Shown
from tests.cuda.harness import case, simulated_case
from tests.cuda.segment import DESCRIPTOR, FABRIC, Part, Segment


@simulated_case("needs faults that the simulator injects")
def test_array_is_copied_if_export_fails() -> None:
    """Regression: the driver's attributes promised an export, so `asarray` raised instead of copying."""
    driver = device.library()
    own = Shown(st.asarray(np.arange(4.0), device="cuda"))
    for array, function in (
        (Array(np.arange(4.0)), b"cuIpcGetMemHandle"),
        (own, b"cuMemExportToShareableHandle"),
    ):
        blocks = st.stats()["blocks"] if st.stats() else 0
        driver.sim_fault(function, 0, 1)
        tensor = st.asarray(array)
        assert tensor.tolist() == [0, 1, 2, 3]
        assert tensor.data_ptr() != array.__cuda_array_interface__["data"][0]
        assert st.stats()["blocks"] == blocks + 1
        with pytest.raises(ValueError, match=r"without a copy: .*CUDA_ERROR_INVALID_VALUE \(1"):
            st.asarray(array, copy=False)
        driver.sim_no_faults()
        assert st.asarray(array, copy=False).data_ptr() == array.__cuda_array_interface__["data"][0]
        del tensor


def share_again(inbox: Any, outbox: Any) -> None:
    """Present the received memory as another library would, and share that."""
    tensor = inbox.get()
    shared = st.asarray(Shown(tensor))
    outbox.put((shared.tolist(), shared.data_ptr() == tensor.data_ptr()))
    inbox.get()


@pytest.mark.thorough
def test_imported_memory_is_copied_if_reexport_fails(simulator) -> None:
    """Whether a driver exports what it has imported is not documented."""
    for again in (0, 1):
        simulator.run(
            f"""
            import numpy as np, shmtensor as st
            from tests.cuda.test_refused_exports import share_again
            from tests.cuda.workers import Pair
            if __name__ == "__main__":
                pair = Pair(share_again)
                pair.put(st.asarray(np.arange(4.0), device="cuda"))
                assert pair.get() == ([0, 1, 2, 3], bool({again}))
                pair.end()
            """,
            SHMTENSOR_SIM_REEXPORT=str(again),
        )


def test_ipc_is_attempted_despite_capability_flag(simulator) -> None:
    """Some drivers, which UCX lists, deny wrongly that cudaMalloc's memory can be exported."""
    simulator.run(
        """
        import numpy as np, shmtensor as st
        from tests.cuda import device
        from tests.cuda.segment import Part, Segment
        array = device.Array(np.arange(4.0))
        assert st.asarray(array, copy=False).data_ptr() == array.pointer
        part = Part(Segment(1), 0, np.arange(4.0))
        assert st.asarray(part, copy=False).data_ptr() == part.pointer
        secret = Part(Segment(1, handle_types=0), 0, np.arange(4.0))
        assert st.asarray(secret).data_ptr() != secret.pointer
        """,
        SHMTENSOR_SIM_IPC_CAPABLE="0",
    )


class Pooled:
    """An array in a stream-ordered pool with the right to export."""

    def __init__(self) -> None:
        driver, pool, pointer = device.library(), ctypes.c_void_p(), ctypes.c_uint64()
        pinned, descriptor, on_device, number = 1, DESCRIPTOR, 1, 0
        properties = struct.pack("4iQQ56x", pinned, descriptor, on_device, number, 0, 0)
        device.check(driver.cuMemPoolCreate(ctypes.byref(pool), properties))
        size = ctypes.c_size_t(32)
        device.check(driver.cuMemAllocFromPoolAsync(ctypes.byref(pointer), size, pool, None))
        device.write(pointer.value, np.arange(4.0).tobytes())
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (4,),
            "typestr": "<f8",
            "data": (pointer.value, False),
            "stream": 1,
        }


@case
def test_reasons_of_refused_exports_are_named() -> None:
    fabric = Segment(1, handle_types=FABRIC) if device.simulated else None
    arrays = {"pool for export, of which the importers": Pooled()}
    if fabric is not None:  # a GPU may refuse to make it
        arrays["FABRIC handles only .*expandable_segments:False"] = Part(fabric, 0, np.arange(4.0))
    for reason, array in arrays.items():
        with pytest.raises(ValueError, match=f"without a copy: .*{reason}"):
            st.asarray(array, copy=False)
        assert st.asarray(array).tolist() == [0, 1, 2, 3]


@case
def test_reserved_address_without_memory_is_rejected() -> None:
    segment = Segment(1)
    part = Part(segment, 0, np.arange(4.0))
    part.pointer = segment.base + segment.size
    for copy in (None, False, True):
        with pytest.raises(st.CudaError, match="reserved" if device.simulated else ""):
            st.asarray(part, copy=copy)


@pytest.mark.parametrize("capable", ["0", "1"])
@pytest.mark.parametrize(
    "env", [{"SHMTENSOR_SIM_MODE": "wsl"}, {"SHMTENSOR_SIM_ATTRIBUTES": "125=0"}], ids=str
)
def test_handle_of_memory_is_not_requested_without_ipc(simulator, env, capable) -> None:
    """Regression: on WSL2 the request succeeds, and sets the array to zero."""
    simulator.run(
        """
        import pytest, shmtensor as st
        from tests.cuda import device
        array = device.Array([1.0, 2.0])
        with pytest.raises(ValueError, match="without a copy: .*WSL2; attribute IPC_EVENT_SUPPORTED"):
            st.asarray(array, copy=False)
        try:
            assert st.asarray(array).tolist() == [1, 2]
        except st.CudaUnavailable as error:
            assert "does not share virtual memory" in str(error)
        assert array.read().tolist() == [1, 2]
        assert device.calls("cuIpcGetMemHandle") == 0
        """,
        SHMTENSOR_SIM_IPC_CAPABLE=capable,
        **env,
    )


@case
def test_pointer_attributes_are_queried_with_context_current() -> None:
    """Regression: in a thread without a context, the driver reported that nothing can be exported."""
    import threading

    array, found = Array(np.arange(4.0)), []
    thread = threading.Thread(target=lambda: found.append(st.asarray(array, copy=False).data_ptr()))
    thread.start()
    thread.join(60)
    assert found == [array.pointer]


@case
def test_array_with_false_size_does_not_expose_its_neighbour() -> None:
    """Regression: a chunk of another owner's adjacent reservation would have been shared, too."""
    first, second = Segment(2, spare=0), Segment(2, spare=0)
    low, high = sorted((first, second), key=lambda segment: segment.base)
    if low.base + low.size != high.base:
        assert not device.simulated
        return
    part = Part(low, low.size - 800, np.arange(100.0))
    assert st.asarray(part, copy=False).tolist() == part.read().tolist()
    part.shape = (200,)
    for copy in (None, False, True):
        with pytest.raises(st.CudaError, match="extends past the end"):
            st.asarray(part, copy=copy)
    pair = workers.Pair(workers.answer)
    part.shape = (100,)
    pair.put(st.asarray(part))
    assert pair.get()[0][0] == part.read().tolist()
    pair.end()
