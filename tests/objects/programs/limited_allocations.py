"""Each way to allocate, over the limit; `test_memory_limit.py` runs it."""

from multiprocessing.reduction import ForkingPickler

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing

array = np.ones(3 << 20)
private = st.from_numpy(array)
st.empty(1)
st.set_limit(4 << 20)


def live_resources():
    return st.stats() | {"bytes_reserved": 0}


ways = [
    lambda: st.empty(3 << 20),
    lambda: st.zeros(3 << 20),
    lambda: st.ones(3 << 20),
    lambda: st.full(3 << 20, 2.5),
    lambda: st.asarray(array),
    lambda: st.asarray(private),
    private.clone,
    private.share_memory_,
    lambda: private.reshape(3, -1).T.reshape(-1),
    lambda: private.storage().clone(),
    lambda: st.Storage(24 << 20),
    lambda: ForkingPickler.dumps(private),
]
before = live_resources()
for number, way in enumerate(ways):
    try:
        way()
    except st.OutOfSharedMemory as error:
        assert "24 MiB" in str(error), error
    else:
        raise AssertionError(f"number {number} went over the limit")
assert live_resources() == before, (before, live_resources())
assert not private.is_shared()
