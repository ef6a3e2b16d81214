"""Functions whose globals are locks, shared values and pipes, which a process gets when it starts."""

from __future__ import annotations

from tests.helpers.server_programs import run_with_server


def test_each_process_gets_the_descriptors_of_globals(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        counter, lock, array = context.Value("i", 0), context.Lock(), context.RawArray("i", 2)
        reader, writer = context.Pipe(duplex=False)
        def work(other):
            with lock, counter.get_lock():
                counter.value += 1
            array[0] += 1
            writer.send(other[0])
        others = [context.RawArray("d", [number]) for number in range(3)]
        for other in others:
            process = context.Process(target=work, args=(other,))
            process.start()
            process.join()
            assert process.exitcode == 0
            assert reader.recv() == other[0]
        assert (counter.value, array[:]) == (3, [3, 0])
        """,
    )


def test_tasks_share_locks_and_values(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        def start(shared_counter, shared_lock, shared_array):
            global counter, lock, array
            counter, lock, array = shared_counter, shared_lock, shared_array
        def work(number):
            with lock, counter.get_lock():
                counter.value += 1
                array[0] += number
            return number
        counter, lock, array = context.Value("i", 0), context.Lock(), context.RawArray("i", 1)
        with context.Pool(2) as pool:
            assert pool.map(work, range(4)) == [0, 1, 2, 3]
        with context.Pool(2, start, (counter, lock, array)) as pool:
            assert pool.map(work, range(4)) == [0, 1, 2, 3]
        assert (counter.value, array[0]) == (8, 12)
        """,
    )
