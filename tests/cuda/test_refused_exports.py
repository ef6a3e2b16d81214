"""Arrays of other libraries that the driver does not export, or not all that they claim to be."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array
from tests.cuda.harness import case
from tests.cuda.segment import Part, Segment


def test_a_driver_that_denies_what_it_can_do_is_tried(simulator) -> None:
    """UCX knows drivers that say of cudaMalloc's memory that it cannot be exported."""
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


@case
def test_the_facts_are_asked_with_a_context() -> None:
    """A thread that has none yet was told that nothing can be exported."""
    import threading

    array, found = Array(np.arange(4.0)), []
    thread = threading.Thread(target=lambda: found.append(st.asarray(array, copy=False).data_ptr()))
    thread.start()
    thread.join(60)
    assert found == [array.pointer]


@case
def test_an_array_that_says_more_than_it_has_shares_no_neighbour() -> None:
    """Behind a reservation may begin that of somebody else: its chunk would have been shared, too."""
    first, second = Segment(2), Segment(2)
    low, high = sorted((first, second), key=lambda segment: segment.base)
    if low.base + low.size != high.base:
        assert not device.simulated
        return
    part = Part(low, low.size - 800, np.arange(100.0))
    assert st.asarray(part, copy=False).tolist() == part.read().tolist()
    part.shape = (200,)
    for copy in (None, False, True):
        with pytest.raises(st.CudaError, match="reaches over the end"):
            st.asarray(part, copy=copy)
    pair = workers.Pair(workers.answer)
    part.shape = (100,)
    pair.put(st.asarray(part))
    assert pair.get()[0][0] == part.read().tolist()
    pair.end()
