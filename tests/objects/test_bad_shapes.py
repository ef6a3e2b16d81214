"""Shapes that NumPy refuses: the same exception, the value in its text, and nothing stays allocated."""

from __future__ import annotations

import os

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.parameter_names import short_repr
from tests.helpers.threads import run_together

pytestmark = pytest.mark.usefixtures("strategy")

BAD = [
    (-1, ValueError, "-1"),
    ((2, -3), ValueError, "-3"),
    ((0, -1), ValueError, "-1"),
    (2**62, ValueError, str(2**62)),
    (2**63 - 1, ValueError, str(2**63 - 1)),
    (2**63, ValueError, str(2**63)),
    (2**64, ValueError, str(2**64)),
    (-(2**64), ValueError, str(2**64)),
    ((2, 2**64), ValueError, str(2**64)),
    ((2**31, 2**31), ValueError, str(2**31)),
    ((2**32, 2**32), ValueError, str(2**32)),
    ((2**20,) * 4, ValueError, str(2**20)),
    ((1,) * 65, ValueError, "65"),
    (2.0, TypeError, "2.0"),
    ((2, 2.5), TypeError, "2.5"),
    ("3", TypeError, "3"),
    ((2, None), TypeError, "None"),
    ({2, 3}, TypeError, r"\{2, 3\}"),
    (1 + 2j, TypeError, "1.2j"),
    (np.array([1.5]), TypeError, "1.5"),
    (np.float64(3), TypeError, "3.0"),
    (((2, 3),), TypeError, r"\(2, 3\)"),
    (object(), TypeError, "object"),
]


@pytest.mark.parametrize(("shape", "kind", "text"), BAD, ids=[short_repr(case[0]) for case in BAD])
def test_bad_shape_raises_like_numpy(shape, kind, text) -> None:
    with pytest.raises(kind):
        np.empty(shape)
    for create in (st.empty, st.zeros, st.ones, lambda shape: st.full(shape, 3)):
        with assert_no_leaks(), pytest.raises(kind, match=text):
            create(shape)


@pytest.mark.parametrize("shape", [True, (True, 2), (np.True_, 2), None], ids=repr)
def test_bool_and_none_are_rejected_as_sizes(shape) -> None:
    with assert_no_leaks(), pytest.raises(TypeError, match=r"True|None"):
        st.empty(shape)


def test_errors_while_reading_a_shape_propagate() -> None:
    class Broken:
        def __index__(self) -> int:
            raise RuntimeError("no number today")

    class BrokenSequence(list):
        def __iter__(self):
            raise RuntimeError("no numbers today")

    for shape in (Broken(), (2, Broken()), BrokenSequence([1])):
        with assert_no_leaks(), pytest.raises(RuntimeError, match="today"):
            st.empty(shape)


def test_shape_is_read_once_while_its_elements_change_it() -> None:
    class Emptier:
        def __index__(self) -> int:
            shape.clear()
            return 2

    shape: list[Emptier] = []
    for _ in range(100):
        shape += [Emptier() for _ in range(64)]
        with assert_no_leaks(), pytest.raises(ValueError, match="too big"):
            st.empty(shape, "u1")


def test_shape_is_read_once_while_other_threads_change_it() -> None:
    """The shape is always one that the list had at some instant."""
    shape = [3, 3, 3, 3]

    def change() -> None:
        for number in range(20_000):
            shape.clear()
            shape.extend([number % 7 + 1] * 4)

    def create() -> None:
        for _ in range(5000):
            found = st.empty(shape, "u1").shape
            assert len(found) in (0, 4), found
            assert len(set(found)) < 2, found

    run_together(change, create, create)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 2**40), (3, 0, 7)])
def test_zero_size_shapes_are_accepted(shape) -> None:
    tensor = st.empty(shape, "u1")
    assert tensor.shape == shape
    assert tensor.nbytes == 0
    assert tensor.numpy().shape == shape


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("x", ValueError, "x"),
        ([1, 2, 3], ValueError, r"\(3,\)"),
        (object(), TypeError, "object"),
    ],
)
def test_rejected_fill_value_leaks_nothing(value, kind, text) -> None:
    with assert_no_leaks(), pytest.raises(kind, match=text):
        st.full((2, 2), value, float)


def test_size_beyond_machine_memory_raises_memory_error() -> None:
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    shown = f"cannot share {-(-size >> 20)} MiB: [0-9]+ MiB are available"
    for create in (st.empty, st.zeros):
        with assert_no_leaks(), pytest.raises(st.OutOfSharedMemory, match=shown) as caught:
            create(size, "u1")
        assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("exponent", [42, 50, 62])
def test_size_beyond_arena_limit_raises_memory_error_without_leaks(exponent) -> None:
    program = """
        import os, sys
        import shmtensor as st
        st.empty(1)
        st.gc()  # memory that runs short gives idle pages back
        before = st.stats(), len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            try:
                st.empty(1 << int(sys.argv[1]), "u1")
            except st.OutOfSharedMemory as error:
                assert f"{1 << int(sys.argv[1]) - 20} MiB" in str(error), error
            else:
                raise AssertionError("it was allocated")
        assert (st.stats(), len(os.listdir("/proc/self/fd"))) == before, (st.stats(), before)
    """
    strategy = mp.get_sharing_strategy()
    output(run_python(program, arguments=(str(exponent),), env={"SHMTENSOR_SHARING_STRATEGY": strategy}))
