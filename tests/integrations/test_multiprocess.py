"""multiprocess, the copy of multiprocessing that pickles by dill, with `st.install`."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output, importing_tests, run_program, write_program

METHODS = ["fork", "spawn", "forkserver"]

SHARED = """
    import gc
    import sys

    import multiprocess
    import numpy as np

    import shmtensor as st


    def write(target, i):
        target[i] = i + 1
        return target


    def closure(target):
        def fill():
            target[3] = 8
            return st.ones(3)

        return fill


    def put(queue, target):
        write(target, 0)
        queue.put(target)


    class Dies:
        def __reduce__(self):
            return eval, ("__import__('os').kill(__import__('os').getpid(), 9)",)


    def settled():
        return (st.stats()["blocks"], st.stats()["in_flight"]) == (0, 0)


    if __name__ == "__main__":
        from tests.helpers.children import wait_until

        st.install("multiprocess")
        context = multiprocess.get_context(sys.argv[1])
        with context.Pool(2) as pool:
            for target in (st.zeros(4), st.zeros(4).numpy()):
                found = pool.starmap(write, [(target, i) for i in range(4)])
                assert target.tolist() == [1, 2, 3, 4]
                found[2][0] = 9
                assert target[0] == 9, "the result is not the same memory"
            # Functions and their closures go by dill, what they refer to as a handle.
            made = pool.apply(closure(target))
            assert made.tolist() == [1, 1, 1]
            assert target[3] == 8
            assert pool.apply(np.sum, (np.ones(1_000_000),)) == 1_000_000

            # A worker is killed between the handles of a message, whose pipe exists as long as the pool.
            workers = [worker.pid for worker in pool._pool]
            pool.apply_async(write, (st.zeros(100_000), Dies(), st.zeros(100_000)))
            wait_until(lambda: workers != [worker.pid for worker in pool._pool], 30)
        del pool
        gc.collect()  # the unfinished task and its pool refer to each other
        tensor = st.zeros(4)
        for queue in (context.Queue(), context.SimpleQueue()):
            process = context.Process(target=put, args=(queue, tensor))
            process.start()
            received = queue.get()
            process.join(50)
            assert tensor[0] == received[0] == 1
            queue.put([tensor] * 3)  # which no process reads
            queue.close()
        del queue, received, tensor, target, found, made
        wait_until(settled, 60, lambda: str(st.stats()))

        st.uninstall("multiprocess")
        tensor = st.zeros(4)
        with context.Pool(1) as pool:
            pool.apply(write, (tensor, 0))
        assert tensor[0] == 0, "uninstall has no effect"
        print("fine")
    """


@pytest.mark.parametrize("method", METHODS)
def test_writes_are_seen_and_nothing_is_left(tmp_path, method) -> None:
    done = run_program(write_program(tmp_path, SHARED), method, env=importing_tests(), timeout=110)
    assert done.stdout == "fine\n", done


EQUAL = """
    import sys

    import multiprocess
    import numpy as np


    def use(*arrays):
        for array in arrays:
            if array.size:
                array[0] = array[-1]
        return [(array, array[::2], array.flags.writeable, array.flags.f_contiguous) for array in arrays]


    if __name__ == "__main__":
        if sys.argv[2] == "on":
            import shmtensor as st

            st.install("multiprocess")
        square = np.arange(40_000.0).reshape(200, 200)
        arrays = [
            square,
            np.asfortranarray(square),
            square[::2, 1:],
            square.astype("M8[s]"),
            np.zeros(20_000, [("a", "i4"), ("b", "f8")]),
            np.array([{}, None] * 10_000),
            np.zeros((0, 3)),
            np.ma.masked_greater(square, 9),
        ]
        with multiprocess.get_context(sys.argv[1]).Pool(2) as pool:
            for array, half, *flags in pool.apply(use, arrays):
                array[:1] = array[1:2]
                print(type(array), array.dtype, array.shape, array.ravel()[-2:], half.ravel()[-2:], flags)
        print(square[0, 1])
    """


@pytest.mark.parametrize("method", METHODS)
def test_results_are_equal_with_and_without_the_integration(tmp_path, method) -> None:
    assert_equal_output(write_program(tmp_path, EQUAL), method, timeout=110)


SERVER = """
    import multiprocess

    import shmtensor as st

    if __name__ == "__main__":
        st.install("multiprocess")
        assert "server" in multiprocess.get_all_start_methods()
        target = st.zeros(4)
        with multiprocess.get_context("server").Pool(2) as pool:
            pool.starmap(lambda tensor, i: tensor.fill_(i), [(target[i], i) for i in range(4)])
        assert target.tolist() == [0, 1, 2, 3]
        st.uninstall("multiprocess")
        assert "server" not in multiprocess.get_all_start_methods()
        print("fine")
    """


def test_server_is_a_start_method(tmp_path) -> None:
    done = run_program(write_program(tmp_path, SERVER), timeout=110)
    assert done.stdout == "fine\n", done


CLOSURE = """
    import pickle

    import multiprocess
    import numpy as np

    import shmtensor as st


    def closure(array):
        return lambda: array


    if __name__ == "__main__":
        st.install("multiprocess")
        table = np.asfortranarray(np.arange(100_000.0).reshape(1000, 100)).astype("M8[s]")
        table.setflags(write=False)
        receiver, sender = multiprocess.Pipe()
        for _ in range(2):
            sender.send(closure(table))
        assert st.stats()["blocks"] == 1
        first, second = receiver.recv()(), receiver.recv()()
        assert (first == table).all()
        assert first.flags.f_contiguous
        first[0] = 7
        assert (second == table).all()
        sender.send(first)
        assert st.stats()["blocks"] == 2
        assert (receiver.recv() == first).all()
        sender.send(second)
        assert st.stats()["blocks"] == 1
        assert receiver.poll()
        for connection in (sender, receiver):
            connection.close()
        del first, second
        pickle.loads(multiprocess.reduction.ForkingPickler.dumps(table))  # for no pipe
        print("fine")
    """


def test_array_of_a_closure_is_copied_once(tmp_path) -> None:
    done = run_program(write_program(tmp_path, CLOSURE), timeout=110)
    assert done.stdout == "fine\n", done


EVENT_LOOP = """
    import asyncio
    import signal
    import time

    import multiprocess

    import shmtensor as st


    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, print, "the loop receives the child's signal")
        process = multiprocess.get_context("fork").Process(target=time.sleep, args=(1000,))
        process.start()
        process.terminate()
        process.join(60)
        print(process.exitcode)
        pool = multiprocess.get_context("fork").Pool(2)
        pool.map_async(time.sleep, [1000, 1000])
        pool.terminate()
        pool.join()
        await asyncio.sleep(0)
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
        print(loop.remove_signal_handler(signal.SIGTERM))


    if __name__ == "__main__":
        st.install("multiprocess")
        asyncio.run(main())
    """


def test_forked_children_of_an_event_loop_have_their_own_signals(tmp_path) -> None:
    done = run_program(write_program(tmp_path, EVENT_LOOP), timeout=110)
    assert done.stdout == "-15\nTrue\n", done
