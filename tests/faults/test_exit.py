"""The interpreter exits during operations: no crash, no hang, nothing left."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.helpers.children import manager_pids, run_program, wait_until, write_program
from tests.helpers.leaks import shm_names

HEAD = """
    import atexit, gc, os, sys, threading, time, weakref
    import numpy as np
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def report():
        print(st.stats()["session"], flush=True)
    """

BODIES = {
    "live tensors, views and arrays": """
        t = st.ones((100, 100)); view = t[::2, 5:]; array = view.numpy(); raw = memoryview(t)
        readonly = t.as_readonly().numpy()
        report()
        """,
    "a cycle that only the last collection frees": """
        class Node: pass
        node = Node(); node.self = node; node.tensor = st.ones(1000); node.array = node.tensor.numpy()
        report()
        """,
    "tensors in module globals and in a finalizer": """
        import types
        module = types.ModuleType("keeper"); sys.modules["keeper"] = module
        module.tensor = st.ones(1000)
        class Late:
            def __del__(self): self.value = module.tensor.numpy()[0]
        late = Late()
        report()
        """,
    "a full queue": """
        queue = mp.Queue()
        for _ in range(2000): queue.put(st.ones(10))
        queue.cancel_join_thread()
        report()
        """,
    "a running feeder that must be joined": """
        context = mp.get_context("fork")
        queue = context.Queue()
        def slow():
            time.sleep(0.5)
            for _ in range(3000): assert queue.get().numpy().sum() == 10
        process = context.Process(target=slow); process.start()
        for _ in range(3000): queue.put(st.ones(10))
        report()
        """,
    "a daemon thread that allocates and sends": """
        queue = mp.SimpleQueue()
        def forever():
            while True:
                t = st.ones(1000); queue.put(t); queue.get()
        for _ in range(3): threading.Thread(target=forever, daemon=True).start()
        report(); time.sleep(0.2)
        """,
    "daemon threads that come back from a long fill when Python is gone": """
        class Late:
            def __del__(self, sleep=time.sleep): sleep(0.2)
        late = Late()
        def forever():
            while True: st.zeros(4_000_000)
        for _ in range(16): threading.Thread(target=forever, daemon=True).start()
        report(); time.sleep(0.2)
        """,
    "daemon threads that pickle in Python when Python is gone": """
        class Late:
            def __del__(self, sleep=time.sleep): sleep(0.2)
        late = Late()
        class Item:
            def __reduce__(self):
                for _ in range(1000): pass
                return int, (1,)
        def forever():
            queue = st.Queue()
            while True: queue.put([Item()] * 10); queue.get()
        for _ in range(8): threading.Thread(target=forever, daemon=True).start()
        report(); time.sleep(0.2)
        """,
    "sys.exit in the middle of a with block": """
        report()
        with mp.get_context("fork").Pool(2) as pool:
            pool.map(np.sum, [st.ones(10), st.ones(20)])
            sys.exit(0)
        """,
    "os._exit": """
        t = st.ones(1000); report(); os._exit(0)
        """,
    "an exit handler that uses tensors": """
        t = st.ones(1000)
        atexit.register(lambda: st.ones(10).numpy().sum() + t.numpy().sum())
        report()
        """,
    "a daemon process that holds tensors": """
        context = mp.get_context("fork")
        inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
        def keep():
            kept = inbox.get(); outbox.put(kept); time.sleep(60)
        process = context.Process(target=keep, daemon=True); process.start()
        inbox.put(st.ones(1000)); back = outbox.get()
        report()
        """,
}


@pytest.mark.thorough
@pytest.mark.parametrize("body", BODIES)
def test_interpreter_exits_cleanly(strategy, tmp_path, body) -> None:
    program = write_program(tmp_path, dedent(HEAD) + dedent(BODIES[body]))
    done = run_program(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert (done.returncode, done.stderr) == (0, ""), done
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")
    assert not shm_names(session)


@pytest.mark.thorough
def test_ctrl_c_ends_all_processes_of_a_program(strategy, tmp_path) -> None:
    """A terminal sends SIGINT to the whole group; the manager, which is not in it, cleans up."""
    program = write_program(
        tmp_path,
        """
        import os, signal, sys, threading
        import shmtensor as st
        import shmtensor.multiprocessing as mp

        def work(inbox, outbox):
            while True:
                outbox.put(inbox.get())

        context = mp.get_context("fork")
        inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
        for _ in range(3):
            context.Process(target=work, args=(inbox, outbox), daemon=True).start()
        tensor = st.ones(1000)
        print(st.stats()["session"], flush=True)
        threading.Timer(0.3, lambda: os.killpg(0, signal.SIGINT)).start()
        while True:
            inbox.put(tensor)
            outbox.get()
        """,
    )
    done = run_program(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert "KeyboardInterrupt" in done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")
    assert not shm_names(session)
