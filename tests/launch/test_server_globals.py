"""The globals of the main program's functions in a worker, also after they have changed."""

from __future__ import annotations

from tests.helpers.children import output, run_beside
from tests.helpers.server_programs import run_with_server


def test_attribute_is_not_a_global(tmp_path) -> None:
    """Regression: `thing.size` was mistaken for the global `size`, whose change sent the function again."""
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
        from multiprocessing.reduction import ForkingPickler
        with context.Pool(1) as pool:
            for size in (1, 2):
                assert pool.apply(use_attribute, (Thing(),)) == [1]
                assert pool.apply(use_global) == size
            assert len(ForkingPickler.dumps(use_attribute)) < 300 < len(ForkingPickler.dumps(use_global))
        """,
    )


def test_initializer_sets_globals() -> None:
    """Regression: each function had its own globals, so the others did not find the assigned values."""
    output(run_beside(__file__, "initializers"))


def test_globals_change_between_functions(tmp_path) -> None:
    """The globals of a new function replace the worker's, unless the sender's value is unchanged."""
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
        with context.Pool(1) as pool:
            assert pool.apply(first) == 0
            step = 1
            assert pool.apply(first) == 1
            assert pool.apply(second) == (1, 1, [0, 1, 1])
            step = 0
            assert pool.apply(third) == 0, "it carries the value for functions that it calls"
            assert pool.apply(first) == 0
            assert pool.apply(second) == (0, 0, [0, 1, 1, 0, 0, 0])
        """,
    )


def test_globals_from_several_senders() -> None:
    """Workers of a fork have functions of both programs; a function that comes back has its own globals."""
    output(run_beside(__file__, "globals_of_senders"))


def test_changed_closures_are_sent_again(tmp_path) -> None:
    """Regression: with a decorator that counts calls, sending the second function raised an error."""
    run_with_server(
        tmp_path,
        """
        def counted(function):
            calls = 0
            def call(*args):
                nonlocal calls
                calls += 1
                return function(*args), calls
            return call
        @counted
        def double(x):
            return 2 * x
        def give(function):
            return function
        with context.Pool(1) as pool:
            for calls in (1, 2, 3):
                for _ in range(3):
                    assert pool.apply(double, (1,))[1] >= calls
                assert double(1) == (2, calls)
            assert pool.apply(give, (double,)) is double
        """,
    )


def test_changed_classes_are_sent_again() -> None:
    """Regression: workers started later had the old attributes, and the globals of the first worker."""
    output(run_beside(__file__, "changed_classes"))


def test_running_workers_get_changes() -> None:
    """Regression: they kept attributes, closures of other functions, and missing names."""
    output(run_beside(__file__, "changes_for_workers"))


def test_change_during_a_send_by_another_thread(tmp_path) -> None:
    """Regression: the older of two simultaneous sends determined what was sent from then on."""
    run_with_server(
        tmp_path,
        """
        from shmtensor.multiprocessing._by_value import reducer
        value = 1
        see = lambda: value
        def call(message):
            return pickle.loads(message)()
        def changed_meanwhile(content):
            global value
            reducer.code_store.add = add
            value = 2
            reducer.dumps_by_value(see)
            return add(content)
        with context.Pool(1) as pool:
            reducer.dumps_by_value(see)
            add, reducer.code_store.add = reducer.code_store.add, changed_meanwhile
            reducer.dumps_by_value(see)
            assert pool.apply(call, (reducer.dumps_by_value(see),)) == 2
        """,
    )


def test_equal_classes_are_refused(tmp_path) -> None:
    """Regression: a worker got the wrong one of two classes that were equal."""
    run_with_server(
        tmp_path,
        """
        class Meta(type):
            def __eq__(self, other):
                return isinstance(other, Meta)
            def __hash__(self):
                return 1
        class First(metaclass=Meta): ...
        class Second(metaclass=Meta): ...
        def make():
            return First(), Second()
        with context.Pool(1) as pool:
            assert type(pool.apply(lambda one: one, (First(),))) is First
        for target, arguments in ((print, (Second(),)), (make, ())):
            process = context.Process(target=target, args=arguments)
            try:
                process.start()
            except pickle.PicklingError as error:
                assert "Meta it equals another class that was sent" in str(error), error
            else:
                raise AssertionError(arguments)
        """,
    )


def test_functions_that_refer_to_tensors() -> None:
    """Regression: handles in the code store belonged to one message, and failed in the second reader's.

    Each pool has one worker, which reads one message of the function.
    """
    output(run_beside(__file__, "functions_with_tensors"))
