"""Processes under RLIMIT_AS, which counts address space, used or not."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_python

# A small limit makes small arenas, a sixteenth of it.
LIMIT = """
    import gc, os, random, resource, threading, time
    import numpy as np
    import shmtensor as st
    from multiprocessing.reduction import ForkingPickler

    MIB = 1 << 20

    def limit(mib):
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    def await_arenas(count):
        deadline = time.monotonic() + 20
        while st.stats()["arenas"] != count:
            assert time.monotonic() < deadline, st.stats()
            time.sleep(0.01)
"""


@pytest.mark.parametrize("collect", [True, False], ids=["gc", "no gc"])
def test_tensors_of_growing_size_need_no_more_than_their_own_space(strategy, collect) -> None:
    """Each size needs an arena of its own; those of the sizes before stayed mapped."""
    program = f"""
    limit(2 << 10)
    for mib in range(130, 230, 10):
        tensor = st.empty(mib * MIB, dtype="uint8")
        tensor.numpy()[-1] = 7
        del tensor
        if {collect}:
            st.gc()
    await_arenas(1)
    print(st.stats()["blocks"])
    """
    done = run_python(LIMIT + program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "0\n", done


def test_arena_of_a_held_sent_or_published_tensor_is_not_retired(strategy) -> None:
    program = """
    limit(3 << 10)
    def arena_of(mib, value):
        return st.full(mib * MIB, value, np.uint8)

    held = arena_of(200, 1)
    sent = arena_of(210, 2)
    message = bytes(ForkingPickler.dumps(sent))
    published = arena_of(220, 3)
    st.publish("name", published)
    del sent, published
    gc.collect()
    for mib in range(230, 280, 10):
        del_me = arena_of(mib, 9)
        del del_me
        st.gc(older_than=1000)
    await_arenas(4)
    assert (held.numpy() == 1).all()
    assert (ForkingPickler.loads(message).numpy() == 2).all()
    assert (st.attach("name").numpy() == 3).all()
    del held
    st.unpublish("name")
    gc.collect()
    st.gc(older_than=0)
    await_arenas(1)
    try:
        ForkingPickler.loads(message)
    except st.StaleHandleError:
        print("stale")
    """
    done = run_python(LIMIT + program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "stale\n", done


def test_peers_of_a_retired_arena_keep_what_they_have(strategy) -> None:
    """A child maps the arena when its owner retires it, and unmaps it when it next meets another."""
    program = """
    import shmtensor.multiprocessing as mp

    def child(inbox, outbox):
        for _ in range(2):
            tensor = inbox.get()
            outbox.put(int(tensor.numpy()[-1]))
            del tensor
            outbox.put(sum("shmtensor" in line for line in open("/proc/self/maps")))
        inbox.get()

    def main():
        limit(4 << 10)
        context = mp.get_context("fork")
        inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
        process = context.Process(target=child, args=(inbox, outbox))
        process.start()
        mapped = []
        for mib, value in (300, 5), (320, 6):
            tensor = st.full(mib * MIB, value, np.uint8)
            inbox.put(tensor)
            del tensor
            assert outbox.get() == value
            mapped.append(outbox.get())
        assert mapped[0] == mapped[1], mapped
        inbox.put(None)
        process.join()
        print("fine")

    main()
    """
    done = run_python(LIMIT + program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "fine\n", done


def test_threads_allocate_while_others_retire(strategy) -> None:
    program = """
    import shmtensor.multiprocessing as mp

    limit(4 << 10)
    mp.set_sharing_strategy(STRATEGY)
    stop = time.monotonic() + 3
    errors = []

    def work(seed):
        rng = random.Random(seed)
        try:
            while time.monotonic() < stop:
                value = rng.randrange(256)
                size = rng.choice([10, 100_000, 3 * MIB, 258 * MIB + rng.randrange(20) * MIB])
                try:
                    tensor = st.empty(size, dtype="uint8")
                except st.OutOfSharedMemory:
                    continue
                tensor.numpy()[:10] = value
                tensor.numpy()[-10:] = value
                if rng.random() < 0.3:
                    tensor = ForkingPickler.loads(ForkingPickler.dumps(tensor))
                if rng.random() < 0.05 and os.fork() == 0:
                    os._exit(0 if tensor.numpy()[-1] == value else 1)
                assert tensor.numpy()[0] == value and tensor.numpy()[-1] == value
        except BaseException as error:
            errors.append(error)

    def collect():
        while time.monotonic() < stop:
            st.gc()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    threads.append(threading.Thread(target=collect))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    while True:
        try:
            _, status = os.wait()
        except ChildProcessError:
            break
        assert status == 0, status
    gc.collect()
    st.gc(older_than=0)
    assert st.stats()["blocks"] == 0, st.stats()
    print("fine")
    """
    done = run_python(LIMIT + f"    STRATEGY = {strategy!r}\n" + program)
    assert done.stdout == "fine\n", done
