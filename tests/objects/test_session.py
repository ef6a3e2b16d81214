"""stats and gc: counts, and what gc frees."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python
from tests.helpers.live_resources import live_resources

KEYS = {
    "session": str,
    "slot": int,
    "processes": int,
    "arenas": int,
    "queues": int,
    "queued": int,
    "blocks": int,
    "bytes_live": int,
    "bytes_reserved": int,
    "in_flight": int,
    "descriptors": int,
    "mappings": int,
}


def test_stats_has_expected_keys_and_types(strategy) -> None:
    tensor = st.zeros(3)
    stats = st.stats()
    assert {key: type(value) for key, value in stats.items()} == KEYS
    assert len(stats["session"]) == 32
    int(stats["session"], 16)
    assert all(value >= 0 for key, value in stats.items() if key != "session")
    assert stats["processes"] >= 1
    assert stats["bytes_reserved"] >= stats["bytes_live"] >= 24
    assert stats["descriptors"] >= 2
    assert stats["mappings"] >= 2
    del tensor


def test_stats_before_first_tensor_starts_no_session() -> None:
    program = """
        import os
        import shmtensor as st
        before = os.listdir("/proc/self/fd")
        stats = st.stats()
        assert stats.pop("session") is None and stats.pop("slot") is None, stats
        assert set(stats.values()) == {0}, stats
        assert st.stats()["blocks"] == 0, "the caller's dict is the caller's"
        assert st.gc() == 0
        st.set_limit(1 << 30)
        st.doctor()
        assert os.listdir("/proc/self/fd") == before
        assert "SHMTENSOR_SESSION" not in os.environ
        st.Storage(5)
        assert st.stats()["session"] == os.environ["SHMTENSOR_SESSION"]
    """
    output(run_python(program))


def test_stats_follow_allocated_bytes_and_blocks(strategy) -> None:
    before = live_resources()
    tensors = [st.zeros(n, "u1") for n in (1, 100, 100_000)]
    assert live_resources()[:2] == (before[0] + 3, before[1] + 100_101)
    st.from_numpy(tensors[0].numpy())
    assert live_resources()[0] == before[0] + 3, "wrappers take none"
    del tensors[1]
    assert live_resources()[:2] == (before[0] + 2, before[1] + 100_001)
    del tensors
    assert live_resources() == before


def test_gc_discards_old_messages_and_frees_their_blocks(strategy) -> None:
    before = live_resources()
    tensor = st.zeros(3)
    contents = [ForkingPickler.dumps(tensor), ForkingPickler.dumps(st.ones(3))]
    assert st.gc(older_than=3600) == 0
    assert live_resources()[2] == before[2] + 2
    assert st.gc(older_than=0) == 2
    assert pickle.loads(contents[0]).storage() is tensor.storage(), "a process still holds it"
    with pytest.raises(st.StaleHandleError):
        pickle.loads(contents[1])
    del tensor
    assert live_resources() == before


def test_gc_without_age_keeps_messages(strategy) -> None:
    """Regression: called for idle memory, it also cancelled messages that had just been sent."""
    tensor = st.ones(3)
    content = ForkingPickler.dumps(tensor)
    del tensor
    program = "import shmtensor as st; st.ones(1); assert st.gc() == 0"
    output(run_python(program, env={"SHMTENSOR_SESSION": st.stats()["session"]}))
    assert st.gc() == 0
    assert pickle.loads(content).tolist() == [1] * 3


def test_gc_keeps_live_tensors(strategy) -> None:
    tensors = [st.full(n * 1000, n) for n in range(1, 20)]
    st.gc()
    assert all((tensor.numpy() == n).all() for n, tensor in enumerate(tensors, 1))


@pytest.mark.parametrize("age", [None, 0, 0.0, 1, 1e9, 1e300, float("inf"), True])
def test_gc_accepts_any_age(age) -> None:
    assert st.gc(age) == 0
    assert st.gc(older_than=age) == 0


@pytest.mark.parametrize(
    ("age", "kind"), [(-1, ValueError), (-0.001, ValueError), (float("nan"), ValueError), ("1", TypeError)]
)
def test_gc_rejects_invalid_age(age, kind) -> None:
    with pytest.raises(kind, match=f"older_than must be .*{age}"):
        st.gc(age)


def test_gc_names_an_age_that_is_no_float() -> None:
    with pytest.raises(OverflowError, match="too large to convert to float"):
        st.gc(2**2000)


def test_gc_returns_idle_memory_to_the_system() -> None:
    program = """
        import shmtensor as st
        tensor = st.zeros(100 << 20, "u1")
        assert st.stats()["bytes_reserved"] >= 100 << 20
        del tensor
        st.gc()
        assert st.stats()["bytes_reserved"] < 8 << 20, st.stats()
    """
    output(run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": mp.get_sharing_strategy()}))
