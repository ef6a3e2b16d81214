"""set_limit: beyond it, OutOfSharedMemory names both numbers and the remedy; nothing stays allocated."""

from __future__ import annotations

import re

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_beside, run_python

MIB = 1 << 20


def run(program: str, **env: str) -> None:
    strategy = {"SHMTENSOR_SHARING_STRATEGY": mp.get_sharing_strategy()}
    output(run_python(program, env=strategy | env))


def test_limit_error_names_both_numbers_and_the_remedy(strategy) -> None:
    run("""
        import shmtensor as st
        def live_resources():
            return st.stats() | {"bytes_reserved": 0}  # what is free may be kept for the next
        keep = st.zeros(1000)
        st.set_limit(16 << 20)
        before = live_resources()
        for size in (20_000_000, 16 << 20, 100_000_000):
            try:
                st.empty(size, "u1")
            except st.OutOfSharedMemory as error:
                text = str(error)
                assert f"{-(-size >> 20)} MiB" in text and "the 16 MiB" in text, text
                assert "set_limit" in text, text
            else:
                raise AssertionError("there was memory")
            assert live_resources() == before, (live_resources(), before)
        assert keep.numpy().sum() == 0
    """)


def test_allocation_works_below_limit_and_after_lifting_it(strategy) -> None:
    run("""
        import numpy as np
        import shmtensor as st
        st.set_limit(np.int64(16 << 20))
        small = st.zeros(10 << 20, "u1")
        try:
            st.zeros(10 << 20, "u1")
        except MemoryError:
            pass
        else:
            raise AssertionError("both fit")
        st.set_limit(None)
        large = st.zeros(100 << 20, "u1")
        st.set_limit(0)
        again = st.zeros(100, "u1")  # in what is reserved already
        assert not large.numpy().any() and not small.numpy().any() and not again.numpy().any()
    """)


def test_freed_memory_can_be_reused_under_the_limit(strategy) -> None:
    run("""
        import shmtensor as st
        st.set_limit(32 << 20)
        for size in [20 << 20, 1 << 20, 24 << 20, 100, 28 << 20] * 4:
            st.zeros(size, "u1").fill_(1)
    """)


def test_every_allocation_path_respects_the_limit(strategy) -> None:
    env = {"SHMTENSOR_SHARING_STRATEGY": strategy}
    output(run_beside(__file__, "limited_allocations", env=env))


def test_environment_sets_the_initial_limit(strategy) -> None:
    run(
        """
        import shmtensor as st
        st.zeros(1 << 20, "u1")
        try:
            st.zeros(32 << 20, "u1")
        except st.OutOfSharedMemory as error:
            assert "8 MiB" in str(error), error
        else:
            raise AssertionError("the limit is not known")
        """,
        SHMTENSOR_MAX_BYTES=str(8 * MIB),
    )


@pytest.mark.parametrize(
    ("limit", "kind"),
    [(-1, ValueError), (np.int64(-5), ValueError), (2**63, ValueError), (2.5, TypeError), ("1G", TypeError)],
)
def test_invalid_limit_is_rejected_and_changes_nothing(limit, kind) -> None:
    with pytest.raises(kind, match=re.escape(str(limit))):
        st.set_limit(limit)
    st.zeros(MIB)


@pytest.mark.parametrize("text", ["1e9", "64M", "-1", "", "99999999999999999999"])
def test_invalid_limit_in_environment_raises_at_first_use(text) -> None:
    done = run_python("import shmtensor as st; st.stats()", env={"SHMTENSOR_MAX_BYTES": text})
    assert done.returncode != 0
    assert f"SHMTENSOR_MAX_BYTES must be a number of bytes, digits only: '{text}'" in done.stderr
