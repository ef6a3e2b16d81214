"""The sharing strategy is a property of the storage; children inherit the default, however they start."""

from __future__ import annotations

import os
import re
import threading

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import run_python, running
from tests.helpers.leaks import shm_names
from tests.helpers.queues import take


def test_strategy_functions() -> None:
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_descriptor"
    for bad in ("nonsense", None, 1, "\ud800"):
        with pytest.raises(ValueError, match=re.escape(f"unknown sharing strategy {bad!r}; there are")):
            mp.set_sharing_strategy(bad)
    assert mp.get_sharing_strategy() == "file_descriptor"


def report_strategy(queue) -> None:
    queue.put((mp.get_sharing_strategy(), os.environ.get("SHMTENSOR_SESSION"), st.ones(1)))


def test_children_inherit_strategy_and_session(ctx, strategy) -> None:
    """In torch, spawned children use the default strategy."""
    queue = ctx.SimpleQueue()
    with running(ctx, report_strategy, queue):
        inherited, session, tensor = take(queue)
    assert inherited == strategy
    assert session == st.stats()["session"]
    assert tensor.item() == 1


def test_switching_strategies_keeps_existing_storages() -> None:
    """In torch, a tensor sent after a switch is silently copied, and later writes are lost."""
    queue = mp.SimpleQueue()
    tensor = st.zeros(3)
    address = tensor.data_ptr()
    mp.set_sharing_strategy("file_system")
    try:
        queue.put(tensor)
        back = take(queue)
        tensor.fill_(7)
        assert back.tolist() == [7, 7, 7]
        assert tensor.data_ptr() == address
        assert back.storage() is tensor.storage()
        named = st.ones(2)
    finally:
        mp.set_sharing_strategy("file_descriptor")
    queue.put(named)
    assert take(queue).storage() is named.storage()


def sum_of(queue, answers) -> None:
    answers.put(sum(float(tensor.numpy().sum()) for tensor in queue.get()))


def test_one_message_mixes_strategies(ctx) -> None:
    tensors = []
    for strategy in ("file_system", "file_descriptor", "file_system"):
        mp.set_sharing_strategy(strategy)
        tensors.append(st.ones(10))
    mp.set_sharing_strategy("file_descriptor")
    queue, answers = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, sum_of, queue, answers):
        queue.put(tensors)
        assert take(answers) == 30


@pytest.mark.parametrize("name", ["file_descriptor", "file_system"])
def test_environment_variable_sets_the_initial_strategy(name) -> None:
    done = run_python(
        """
        import os
        import shmtensor as st, shmtensor.multiprocessing as mp
        tensor = st.ones(1)
        session = st.stats()["session"]
        print(mp.get_sharing_strategy(), any(session in n for n in os.listdir("/dev/shm")))
        """,
        env={"SHMTENSOR_SHARING_STRATEGY": name},
    )
    assert done.stdout.split() == [name, str(name == "file_system")], done


def test_invalid_environment_value_raises_at_first_use() -> None:
    done = run_python(
        "import shmtensor as st; st.stats()", env={"SHMTENSOR_SHARING_STRATEGY": "carrier pigeon"}
    )
    assert done.returncode != 0
    assert "carrier pigeon" in done.stderr


def test_named_arenas_keep_no_descriptor(ctx) -> None:
    mp.set_sharing_strategy("file_system")
    try:
        queue = ctx.SimpleQueue()
        with running(ctx, report_strategy, queue):
            tensor = take(queue)[2]
            names = {
                os.readlink(f"/proc/self/fd/{fd}")
                for fd in os.listdir("/proc/self/fd")
                if fd.isdigit() and os.path.islink(f"/proc/self/fd/{fd}")
            }
            assert not [name for name in names if name.startswith("/dev/shm/shmtensor-")]
            assert shm_names(st.stats()["session"])
        assert tensor.item() == 1
        queue.close()
    finally:
        mp.set_sharing_strategy("file_descriptor")


def test_threads_share_the_strategy(strategy) -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(mp.get_sharing_strategy()))
    thread.start()
    thread.join()
    assert seen == [strategy]
