"""Processes under RLIMIT_AS, which counts address space, used or not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.helpers.children import run_program, run_python

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
        deadline = time.monotonic() + 60
        while st.stats()["arenas"] != count:
            assert time.monotonic() < deadline, st.stats()
            time.sleep(0.01)
"""


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


# A consumer that limits itself, and producers without a limit, whose arenas reserve the machine's memory.
CONSUMER = """
    import multiprocessing

    def produce(outbox, done, mib, count, seed):
        rng = np.random.default_rng(seed)
        for _ in range(count):
            outbox.put(st.full(int(rng.integers(1, mib * MIB)), seed, np.uint8))
        done.get()

    def with_producers(producers, mib, count, consume):
        context = multiprocessing.get_context("spawn")  # whose queues need no arena of this process
        outbox, done = context.SimpleQueue(), context.SimpleQueue()
        arguments = [(outbox, done, mib, count, seed) for seed in range(producers)]
        processes = [context.Process(target=produce, args=each) for each in arguments]
        for process in processes:
            process.start()
        consume(outbox)
        for _ in processes:
            done.put(None)
        for process in processes:
            process.join()
            assert process.exitcode == 0
"""


def run_file(tmp_path, code: str, strategy: str):
    """As a file, since the start method spawn imports the program."""
    path = tmp_path / "program.py"
    path.write_text(dedent(LIMIT) + dedent(CONSUMER) + dedent(code))
    return run_program(path, env={"SHMTENSOR_SHARING_STRATEGY": strategy})


@pytest.mark.thorough
def test_limited_consumer_maps_windows_of_large_arenas(strategy, tmp_path) -> None:
    """It was refused 24 bytes, since it mapped the whole reserve of its peer's arena."""
    code = """
    def consume(outbox):
        limit(2 << 10)
        held = [outbox.get() for _ in range(20)]
        assert all((t.numpy() == v).all() for t in held for v in t.numpy()[:1]), held
        held[0].numpy()[:] = 77
        assert (ForkingPickler.loads(ForkingPickler.dumps(held[0])).numpy() == 77).all()
        if os.fork() == 0:
            os._exit(0 if (held[0].numpy() == 77).all() else 1)
        assert os.wait()[1] == 0
        own = st.ones(MIB)
        assert own.numpy().sum() == MIB
        print("fine")

    if __name__ == "__main__":
        with_producers(1, 20, 20, consume)
    """
    done = run_file(tmp_path, code, strategy)
    assert done.stdout == "fine\n", done


@pytest.mark.thorough
def test_limited_consumer_unmaps_arenas_that_it_does_not_use(strategy, tmp_path) -> None:
    """Each peer's tables take a third of a gibibyte of address space."""
    code = """
    def consume(outbox):
        limit(2 << 10)
        seen = [int(outbox.get().numpy()[-1]) for _ in range(2 * 8)]
        assert sorted(seen) == sorted(2 * list(range(8))), seen
        print("fine")

    if __name__ == "__main__":
        with_producers(8, 1, 2, consume)
    """
    done = run_file(tmp_path, code, strategy)
    assert done.stdout == "fine\n", done


@pytest.mark.thorough
def test_peers_leave_half_of_the_address_space_to_the_program(strategy, tmp_path) -> None:
    """The reserves of twelve arenas filled it: the program's own allocations failed."""
    code = """
    def consume(outbox):
        import mmap

        gib = 1 << 30
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        reserve = min(max(1 << (memory - 1).bit_length(), gib), 256 * gib)
        limit((16 * reserve + 16 * gib) // MIB)
        held = [outbox.get() for _ in range(12)]
        assert sorted(int(t.numpy()[0]) for t in held) == list(range(12)), held
        with mmap.mmap(-1, 6 * reserve, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0):
            print("fine")

    if __name__ == "__main__":
        with_producers(12, 1, 1, consume)
    """
    done = run_file(tmp_path, code, strategy)
    assert done.stdout == "fine\n", done


def test_refusal_names_the_limit_and_loses_nothing(strategy, tmp_path) -> None:
    code = """
    def consume(outbox):
        message = outbox._reader.recv_bytes()
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB, hard))
        try:
            ForkingPickler.loads(message)
        except OSError as error:
            print("RLIMIT_AS" in str(error))
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        print(ForkingPickler.loads(message).numpy()[-1])

    if __name__ == "__main__":
        with_producers(1, 1, 1, consume)
    """
    done = run_file(tmp_path, code, strategy)
    assert done.stdout == "True\n0\n", done


@pytest.mark.thorough
def test_limit_of_the_first_process_does_not_bind_the_others(strategy, tmp_path) -> None:
    """Its manager has the limit, too. It mapped 306 MB for each other process, and refused the eleventh."""
    code = """
    def first(ready, done):
        limit(3 << 10)
        mine = st.ones(1000)
        ready.put("ready")
        done.get()

    def other(number, ready, done):
        ready.put(st.full(1000, number))
        done.get()

    if __name__ == "__main__":
        import multiprocessing

        os.environ["SHMTENSOR_SESSION"] = f"limited {os.getpid()}"
        context = multiprocessing.get_context("fork")
        ready, done = context.SimpleQueue(), context.SimpleQueue()
        processes = [context.Process(target=first, args=(ready, done))]
        processes[0].start()
        assert ready.get() == "ready"
        for number in range(40):
            processes.append(context.Process(target=other, args=(number, ready, done)))
            processes[-1].start()
        got = [ready.get() for _ in range(40)]
        assert sorted(int(tensor.numpy()[5]) for tensor in got) == list(range(40))
        for _ in processes:
            done.put(None)
        for process in processes:
            process.join()
            assert process.exitcode == 0
        print("fine")
    """
    done = run_file(tmp_path, code, strategy)
    assert done.stdout == "fine\n", done
