"""Arguments of a worker that ended before it loaded them are released."""

from __future__ import annotations

import time

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end


class Blocks:
    """Blocks the worker before it loads the arguments that follow."""

    def __reduce__(self):
        return time.sleep, (60,)


def never(*_) -> None:
    raise AssertionError("it does not come to this")


@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "server"])
def test_worker_killed_before_it_loads_its_arguments(start_method, strategy) -> None:
    before = st.stats()
    context = mp.start_processes(never, (Blocks(), st.ones(10)), join=False, start_method=start_method)
    assert st.stats()["in_flight"] == before["in_flight"] + 1
    context.processes[0].kill()
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL"):
        context.join()
    assert st.stats()["in_flight"] == before["in_flight"]


@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "server"])
def test_process_killed_before_it_loads_its_arguments(start_method, strategy) -> None:
    before = st.stats()
    process = mp.get_context(start_method).Process(target=never, args=(Blocks(), st.ones(10)))
    process.start()
    assert st.stats()["in_flight"] == before["in_flight"] + 1
    process.kill()
    end(process)
    del process
    assert st.stats()["in_flight"] == before["in_flight"]


def give_back(rank, tensor):
    return tensor


def test_loaded_arguments_stay_valid(start_method, strategy) -> None:
    tensor = st.ones(3)
    context = mp.start_processes(give_back, (tensor,), nprocs=2, join=False, start_method=start_method)
    kept = context.results()
    del context, tensor
    assert [back.tolist() for back in kept] == [[1, 1, 1]] * 2
