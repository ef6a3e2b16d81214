"""Definitions of the main program are sent by value, and come back as themselves; limits raise errors."""

from __future__ import annotations

import textwrap

import pytest

from tests.helpers.children import run_program, write_program
from tests.helpers.server_programs import run_with_server


def test_kinds_of_definitions_both_ways(tmp_path) -> None:
    out = run_with_server(
        tmp_path,
        """
        @dataclasses.dataclass
        class Point:
            x: int
            def doubled(self):
                return Point(self.x * 2)
            @classmethod
            def origin(cls):
                return cls(0)
            @staticmethod
            def helper():
                return SCALE
        class Child(Point):
            def doubled(self):
                return super().doubled()
        class Meta(type):
            def __eq__(self, other):
                return NotImplemented
            __hash__ = type.__hash__
        class WithMeta(metaclass=Meta): ...
        class Colour(enum.Enum):
            RED = 1
        class Failure(Exception): ...
        SCALE = 3
        def scaled(point):
            return Point(point.x * SCALE)
        def recursive(n):
            return 1 if n == 0 else n * recursive(n - 1)
        def make_closure(k):
            def closure(x):
                return x + k
            return closure
        def make_class():
            class Local:
                pass
            return Local
        Local = make_class()
        def fail():
            raise Failure("mine")
        def give(thing):
            return thing
        with context.Pool(2) as pool:
            assert type(pool.apply(scaled, (Point(2),))) is Point
            assert pool.apply(scaled, (Point(2),)) == Point(6)
            assert type(pool.apply(Child(4).doubled)) is Point
            assert type(pool.apply(Point.origin)) is Point
            assert pool.apply(Point.helper) == 3
            assert pool.apply(give, (Colour.RED,)) is Colour.RED
            assert pool.apply(give, (Point,)) is Point
            assert pool.apply(give, (WithMeta,)) is WithMeta
            assert type(pool.apply(give, (Local(),))) is Local
            assert pool.apply(give, (scaled,)) is scaled
            assert pool.apply(recursive, (5,)) == 120
            assert pool.map(make_closure(10), range(3)) == [10, 11, 12]
            assert pool.map(lambda x: x * SCALE, range(3)) == [0, 3, 6]
            assert pool.apply(functools.partial(recursive, 3)) == 6
            returned = pool.apply(make_closure, (7,))
            assert returned(1) == 8
            try:
                pool.apply(fail)
            except Failure as error:
                assert error.args == ("mine",)
            else:
                raise SystemExit("no failure")
        assert Point.helper.__globals__ is globals(), "no object of the caller was replaced"
        assert Point(5).doubled() == Point(10)
        print("body")
        """,
    )
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


def test_unpicklable_globals_are_named(tmp_path) -> None:
    out = run_with_server(
        tmp_path,
        """
        def check(words, function, *args, error=pickle.PicklingError):
            try:
                function(*args)
            except error as problem:
                text = repr(problem) + repr(problem.__cause__)
                assert all(word in text for word in words), text
            else:
                raise SystemExit(f"no error with {words}")

        FACTOR = 2
        def use_factor(x):
            return inner(x)
        def inner(x):
            return x * FACTOR
        lock = threading.Lock()
        def use_lock():
            return lock
        def find_in_main():
            import __main__
            return __main__.FACTOR
        def find_by_pickle():
            return pickle.loads(b"c__main__\\nFACTOR\\n.")
        with context.Pool(1) as pool:
            assert pool.apply(use_factor, (4,)) == 8
            check(["use_lock", "'server'", "lock", "module"], pool.apply, use_lock)
            check(["server", "module", "method"], pool.apply, find_in_main, error=AttributeError)
            check(["server", "module", "method"], pool.apply, find_by_pickle, error=AttributeError)
        check(["'server'", "arguments", "fork"], context.Process(target=print, args=(lock,)).start)
        print("done")
        """,
    )
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
