"""Workers of joblib write into tensors and return some. Argument: a backend."""

import sys

import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor


def write(target, i):
    target[i] = i + 1
    return target


def make(i):
    return torch.full((100_000,), float(i))


def storage_of(pair):
    first, second = pair
    first[0] = 5
    return second[0].item()


if __name__ == "__main__":
    import shmtensor as st
    from tests.helpers.empty_sessions import wait_until_empty

    backend = sys.argv[1]
    st.install("torch", "joblib")
    shared = torch.zeros(4).share_memory_()
    private = torch.zeros(100_000)
    with Parallel(2, backend=backend) as parallel:
        found = parallel(delayed(write)(shared, i) for i in range(4))
        assert shared.tolist() == [1, 2, 3, 4], shared
        found[0][0] = 9
        assert shared[0] == 9, "the result is not the same memory"
        found = parallel(delayed(write)(private, i) for i in range(4))
        assert not private.any()
        assert [one[i].item() for i, one in enumerate(found)] == [1, 2, 3, 4]
        made = parallel(delayed(make)(i) for i in range(3))
        assert all(one.is_shared() for one in made)
        whole = torch.zeros(100_000)
        assert parallel([delayed(storage_of)((whole, whole[:10]))]) == [5]
    del found, made, shared
    if backend == "loky":
        get_reusable_executor().shutdown()  # which has queues
    st.uninstall("joblib")
    wait_until_empty()
