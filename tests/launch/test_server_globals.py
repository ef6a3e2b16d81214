"""Which globals a function of the main program finds in a worker, and what is told when they changed."""

from __future__ import annotations

from tests.helpers.server_programs import run_with_server


def test_an_attribute_is_no_global(tmp_path) -> None:
    """`thing.size` was taken for the global `size`, whose change the function would not see."""
    run_with_server(
        tmp_path,
        """
        class Thing:
            size = 1
        def use_attribute(thing):
            return [part.size for part in (thing,)]
        def use_global():
            def inner():
                return size
            return inner()
        with context.Pool(1) as pool:
            for size in (1, 2):
                assert pool.apply(use_attribute, (Thing(),)) == [1]
            assert pool.apply(use_global) == 2
            size = 3
            try:
                pool.apply(use_global)
            except pickle.PicklingError as error:
                assert "'size'" in str(error)
            else:
                raise SystemExit("the change was not told")
        """,
    )


def test_an_initializer_that_sets_globals(tmp_path) -> None:
    """The usual idiom: each function had globals of its own, so the others found None, or no name."""
    run_with_server(
        tmp_path,
        """
        cache, shared = None, {}
        def initialize(value):
            global cache, undefined
            cache = undefined = shared["value"] = value
        def use(k):
            return cache, undefined, shared["value"]
        class User:
            def use(self):
                return cache
        def use_in_turn(k):
            return use(k), User().use(), (lambda: cache)()
        def pool_in_a_worker():
            with context.Pool(1, initializer=initialize, initargs=(7,)) as pool:
                return pool.apply(use, (0,))
        for value in (3, 4):
            with context.Pool(2, initializer=initialize, initargs=(value,)) as pool:
                assert pool.map(use, range(4)) == [(value,) * 3] * 4
                assert pool.map(lambda k: cache, range(4)) == [value] * 4
                assert pool.apply(use_in_turn, (0,)) == ((value,) * 3, value, value)
                assert pool.apply(User().use) == value
        with ProcessPoolExecutor(1, mp_context=context, initializer=initialize, initargs=(5,)) as executor:
            assert executor.submit(use, 0).result() == (5,) * 3
        assert cache is None and shared == {} and "undefined" not in globals(), "the program's are its own"
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            assert executor.submit(pool_in_a_worker).result() == (7,) * 3
        """,
    )


def test_globals_that_change_between_functions(tmp_path) -> None:
    """What a new function brings replaces what is there, unless it is the same as before."""
    run_with_server(
        tmp_path,
        """
        step, kept, gone = 0, [], object
        def first():
            kept.append(step)
            return step
        def second():
            return step, first(), kept
        def third():
            return first()
        def told(function):
            try:
                pool.apply(function)
            except pickle.PicklingError as error:
                assert "'step'" in str(error), error
            else:
                raise SystemExit(f"nothing was said of {function}")
        with context.Pool(1) as pool:
            assert pool.apply(first) == 0
            step = 1
            told(first)
            assert pool.apply(second) == (1, 1, [0, 1])
            step = 0
            told(first)
            told(second)
            assert pool.apply(third) == 0, "it brings the value for those that it calls"
        """,
    )


def test_globals_of_several_processes(tmp_path) -> None:
    """Workers of a fork have both programs' functions; what comes back has globals of its own."""
    run_with_server(
        tmp_path,
        """
        value = "parent's"
        def read():
            return value
        def read_too():
            return value
        def assign_and_return():
            global value
            value = "worker's"
            return lambda: value
        with context.Pool(1) as pool:
            assert pool.apply(read) == "parent's"
            returned = pool.apply(assign_and_return)
            assert returned() == pool.apply(read) == "worker's"
            assert value == read() == "parent's"
            again = pool.apply(lambda function: function(), (returned,))
            assert again == "worker's"
        child = os.fork()
        if child == 0:
            value = "child's"
            with context.Pool(1) as pool:
                assert pool.apply(lambda: read_too()) == "child's"
                assert pool.apply(lambda: value) == "child's"
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """,
    )
