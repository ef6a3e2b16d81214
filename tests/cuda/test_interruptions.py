"""Signal handlers that raise, forks, failed threads and slow calls, in the middle of a step."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import shmtensor as st
from shmtensor._cuda import events as cuda_events
from tests.cuda import device
from tests.cuda.device import Array
from tests.cuda.harness import case, simulated_case
from tests.cuda.segment import Part, Segment
from tests.helpers.children import manager_pid, run_python
from tests.helpers.interrupts import call_with_interrupt


@case
def test_owner_is_released_although_the_first_thread_could_not_start() -> None:
    start = threading.Thread.start

    def fail(self: threading.Thread) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    threading.Thread.start = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="start new thread"):
        st.asarray(Array([1.0]))
    threading.Thread.start = start  # type: ignore[method-assign]
    tensor = st.asarray(Array([2.0]), copy=False)
    del tensor
    device.wait_until(lambda: Array.alive == 0, "both owners")


def test_child_forked_while_a_thread_loads_the_driver_does_not_hang(tmp_path) -> None:
    """The lock of the loading was locked in the child, with no thread to release it."""
    driver = tmp_path / "libcuda.so.1"  # opening a FIFO waits for a writer, and reading for its end
    os.mkfifo(driver)
    done = run_python(
        """
        import os, signal, sys, threading, time
        import shmtensor as st

        loading = threading.Thread(target=st.cuda.is_available)
        loading.start()
        while True:
            try:
                writer = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:
                time.sleep(0.001)
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            os._exit(int(st.cuda.is_available()))
        _, status = os.waitpid(pid, 0)
        os.close(writer)
        loading.join()
        assert status == 0, f"the child ended with {status}"
        """,
        arguments=(str(driver),),
        env={"SHMTENSOR_LIBCUDA": str(driver)},
    )
    assert done.returncode == 0, done.stderr


@simulated_case("needs faults that the simulator injects")
def test_interpreter_runs_while_an_export_waits_for_the_manager() -> None:
    """A thread that loads an export of its own process waited with the GIL held."""
    values = np.arange(1000.0)
    sent = st.multiprocessing.SimpleQueue()
    sent.put(st.asarray(Part(Segment(1), 0, values)))
    gc.collect()
    manager = manager_pid(st.stats()["session"])
    exported = []
    exporting = threading.Thread(target=lambda: exported.append(st.asarray(Part(Segment(1), 0, values))))
    calls = device.calls("cuMemExportToShareableHandle")

    def wake() -> None:
        time.sleep(0.5)
        os.kill(manager, signal.SIGCONT)

    waking = threading.Thread(target=wake)
    os.kill(manager, signal.SIGSTOP)
    exporting.start()
    while device.calls("cuMemExportToShareableHandle") == calls:
        time.sleep(0.001)
    waking.start()  # if the interpreter stands still, it does so until the export gives up
    assert sent.get().cpu().numpy()[-1] == 999
    exporting.join()
    waking.join()
    assert exported[0].is_shared()


@case
def test_handler_that_raises_in_a_collection_loses_no_event() -> None:
    instruction, reached = 0, True
    while reached:
        instruction += 1
        event = st.cuda.Event()
        del event
        reached = call_with_interrupt(cuda_events.collect, cuda_events, instruction)
        if cuda_events._lock().locked():  # raised between the end of a `with` and its `__exit__`
            cuda_events._lock().release()
        cuda_events.collect()
        assert not cuda_events._own, f"at instruction {instruction}"
    assert instruction > 20
