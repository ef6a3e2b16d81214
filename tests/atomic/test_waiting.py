"""`wait_for_change` in one process: timeouts, signals, threads."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import shmtensor as st


@pytest.mark.parametrize("timeout", [0, -1, 0.0, 0.05])
def test_timeout_returns_false(timeout) -> None:
    tensor = st.zeros(3, np.int32)
    start = time.monotonic()
    assert st.wait_for_change(tensor, 1, 0, timeout) is False
    assert time.monotonic() - start >= timeout


def test_changed_element_returns_immediately() -> None:
    assert st.wait_for_change(st.ones(3), -1, 0) is True
    assert st.wait_for_change(st.ones(3), -1, 0, timeout=0) is True


def test_elements_are_compared_as_numbers() -> None:
    """A NaN stands for "no result yet", whatever its bits are."""
    tensor = st.asarray(np.array([np.nan, -np.nan, -0.0, 0.1], np.float32))
    assert not st.wait_for_change(tensor, 0, float("nan"), timeout=0)
    assert not st.wait_for_change(tensor, 1, float("nan"), timeout=0)
    assert not st.wait_for_change(tensor, 2, 0, timeout=0)
    assert not st.wait_for_change(tensor, 3, 0.1, timeout=0)
    assert st.wait_for_change(tensor, 3, float("nan"), timeout=0)


@pytest.mark.parametrize("delay", [0, 0.0001, 0.01, 0.1])
def test_write_of_another_thread_ends_the_wait(delay) -> None:
    """It could not run if the waiting thread held the GIL."""
    tensor = st.zeros(1, np.uint64)

    def write() -> None:
        time.sleep(delay)
        tensor[0] = 1

    thread = threading.Thread(target=write)
    thread.start()
    assert st.wait_for_change(tensor, 0, 0, timeout=60)
    thread.join()


@pytest.mark.parametrize("timeout", [None, 1000])
def test_interrupt_ends_the_wait(timeout) -> None:
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        st.wait_for_change(st.zeros(1), 0, 0, timeout)
    timer.join()


def test_handled_signal_does_not_end_the_wait() -> None:
    tensor = st.zeros(1, np.int64)

    def on_alarm(*_: object) -> None:
        tensor[0] += 1

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert st.wait_for_change(tensor, 0, 0, timeout=60)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_memory_stays_while_a_thread_waits() -> None:
    tensor = st.zeros(1, np.int64)
    results = []
    thread = threading.Thread(target=lambda: results.append(st.wait_for_change(tensor, 0, 0, timeout=60)))
    thread.start()
    time.sleep(0.05)
    array = tensor.numpy()
    tensor.release()
    array[0] = 1
    thread.join()
    assert results == [True]


def test_one_element_is_waited_for() -> None:
    with pytest.raises(TypeError, match="wait_for_change takes one element"):
        st.wait_for_change(st.zeros(3), [0, 1], 0)
    with pytest.raises(ValueError, match="NaN"):
        st.wait_for_change(st.zeros(3), 0, 0, timeout=float("nan"))
