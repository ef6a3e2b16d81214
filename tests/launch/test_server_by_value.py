"""Definitions of the main program are sent by value, and come back as themselves; limits raise errors."""

from __future__ import annotations

import textwrap

import pytest

from tests.helpers.children import output, run_beside, run_program, write_program
from tests.helpers.server_programs import run_with_server


def test_kinds_of_definitions_both_ways() -> None:
    out = output(run_beside(__file__, "kinds_of_definitions"))
    assert out == "body\n"


def test_tensors_in_closures_and_globals_are_handles(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        tensor = st.zeros(4)
        def fill(rank):
            tensor[rank] = rank
        mp.spawn(fill, nprocs=4, start_method="server")
        assert tensor.tolist() == [0, 1, 2, 3]
        with context.Pool(1) as pool:
            for rank in range(3):
                pool.apply(fill, (rank,))
        """,
    )


def test_function_is_sent_once_to_each_worker(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        from multiprocessing.reduction import ForkingPickler
        def large(x, load=bytes(100_000)):
            return x
        queue = context.SimpleQueue()
        with context.Pool(2) as pool:
            assert pool.map(large, range(100)) == list(range(100))
            sizes = [len(ForkingPickler.dumps(large)) for _ in range(3)]
            assert max(sizes) < 300, sizes
            short = lambda x, load=bytes(100_000): x
            sizes = [len(ForkingPickler.dumps(short)) for _ in range(3)]
            assert sizes[0] > 100_000 and max(sizes[1:]) < 300, sizes
        """,
    )


def test_functions_of_one_definition_are_not_all_kept(tmp_path) -> None:
    """Regression: the code store and the workers kept each lambda that a program made and sent twice."""
    run_with_server(
        tmp_path,
        """
        from shmtensor.multiprocessing._by_value import reducer
        reducer._MOST_SMALL = 20
        def kept():
            return len(reducer._kept)
        def make(number, size):
            load = bytes(size)
            return lambda x: x + number + len(load)
        def call(number, size):
            expected = [number + size + i for i in (1, 2, 3)]
            assert pool.map(make(number, size), [1, 2, 3], 1) == expected
        with context.Pool(1) as pool:
            for number in range(50):
                call(number, 1000)
            stored = pool.apply(kept)
            assert stored <= 22, stored
            assert len(reducer.dumps_by_value(kept)) < 300, "other definitions are still sent once"
            call(7, 1_000_000)
            assert pool.apply(kept) == stored + 1, "a large one is sent once"
        """,
    )


@pytest.mark.parametrize("method", ["server", "fork", "spawn", "forkserver"])
def test_runs_of_an_unguarded_script_body(tmp_path, method) -> None:
    """Start methods of the standard library import the script again: they fail, or run it again."""
    count = tmp_path / "count"
    count.touch()
    program = """
        import sys
        import shmtensor.multiprocessing as mp
        with open(sys.argv[1], "a") as file:
            file.write("run ")
        def work(rank):
            return rank * rank
        try:
            print(mp.spawn(work, nprocs=2, join=False, start_method=sys.argv[2]).results())
        except mp.ProcessException:
            print("failed")
        except ChildProcessError as error:  # where the fork server itself imports it
            assert "if __name__ ==" in str(error)
            print("failed")
    """
    done = run_program(write_program(tmp_path, textwrap.dedent(program)), str(count), method)
    runs = len(count.read_text().split())
    if method in {"server", "fork"}:
        assert done.stdout == "[0, 1]\n", done.stderr
        assert runs == 1
    else:
        assert done.stdout.splitlines()[-1] == "failed"
        assert runs > 1


def test_unpicklable_globals_are_named() -> None:
    out = output(run_beside(__file__, "unpicklable_globals"))
    assert out == "done\n"


def test_sender_does_not_keep_sent_functions_alive(tmp_path) -> None:
    """Regression: a lambda, and what it refers to, lived as long as the program."""
    run_with_server(
        tmp_path,
        """
        import gc, weakref
        from multiprocessing.reduction import ForkingPickler
        class Thing: ...
        def send(part):
            def recursive(n):
                return recursive(n - 1) if n else (part, thing)
            for function in (recursive, lambda: part, lambda: thing, recursive):
                ForkingPickler.dumps(function)
            return weakref.ref(part), weakref.ref(thing), weakref.ref(recursive)
        context.Process().start()
        thing = Thing()
        watches = send(Thing())
        thing = None
        gc.collect()
        assert [watch() for watch in watches] == [None] * 3
        """,
    )


def test_missing_cloudpickle_names_the_extra(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        sys.modules["cloudpickle"] = None
        try:
            context.Process(target=lambda: None).start()
        except ImportError as error:
            assert "pip install cloudpickle" in str(error), error
        else:
            raise SystemExit("it was not missed")
        """,
    )


def test_standard_library_executors_and_queues(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        import multiprocessing
        class Item:
            def __init__(self, value):
                self.value = value
        def take(queue, answers):
            answers.put([queue.get(), queue.get()])
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            assert [type(one) for one in executor.map(lambda v: Item(v), range(4))] == [Item] * 4
        queue, answers = multiprocessing.Queue(), context.Queue()
        queue, answers = context.Queue(), context.Queue()
        process = context.Process(target=take, args=(queue, answers))
        process.start()
        queue.put(Item(1)); queue.put(Item(2))
        assert [type(item) for item in answers.get()] == [Item, Item]
        process.join()
        assert process.exitcode == 0
        """,
    )


def test_process_subclass_of_main(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        class Doubling(context.Process):
            def __init__(self, tensor):
                super().__init__()
                self.tensor = tensor
            def run(self):
                self.tensor *= 2
        tensor = st.ones(3)
        process = Doubling(tensor)
        process.start()
        process.join()
        assert tensor.tolist() == [2, 2, 2]
        """,
    )


def test_workers_start_workers(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        class Item: ...
        def make(rank):
            return Item(), rank
        def middle(rank):
            return mp.spawn(make, nprocs=2, join=False, start_method="server").results()
        for pairs in mp.spawn(middle, nprocs=2, join=False, start_method="server").results():
            assert [(type(item), rank) for item, rank in pairs] == [(Item, 0), (Item, 1)]
        """,
    )
