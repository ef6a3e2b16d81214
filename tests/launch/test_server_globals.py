"""The globals of the main program's functions in a worker, also after they have changed."""

from __future__ import annotations

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


def test_initializer_sets_globals(tmp_path) -> None:
    """Regression: each function had its own globals, so the others did not find the assigned values."""
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
        assert cache is None and shared == {} and "undefined" not in globals(), "the program's are unchanged"
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            assert executor.submit(pool_in_a_worker).result() == (7,) * 3
        """,
    )


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


def test_globals_from_several_senders(tmp_path) -> None:
    """Workers of a fork have functions of both programs; a function that comes back has its own globals."""
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


def test_changed_classes_are_sent_again(tmp_path) -> None:
    """Regression: workers started later had the old attributes, and the globals of the first worker."""
    run_with_server(
        tmp_path,
        """
        scale = 1
        class Base:
            def of_base(self):
                return scale
        class Settings(Base):
            rate = 1
            @property
            def of_property(self):
                return scale
            class Inner:
                rate = 1
        def see(queue, settings):
            queue.put((settings.rate, settings.of_property, settings.of_base(), settings.Inner.rate))
        queue = context.SimpleQueue()
        for value in (1, 2, 3, 3):
            scale = Settings.rate = Settings.Inner.rate = value
            process = context.Process(target=see, args=(queue, Settings()))
            process.start()
            assert queue.get() == (value,) * 4
            process.join()
        Settings.added = 4
        process = context.Process(target=lambda settings: queue.put(settings.added), args=(Settings(),))
        process.start()
        assert queue.get() == 4
        process.join()
        """,
    )


def test_running_workers_get_changes(tmp_path) -> None:
    """Regression: they kept attributes, closures of other functions, and missing names."""
    run_with_server(
        tmp_path,
        """
        def with_option(function):
            option = 1
            def call(x):
                return function(x) * option
            def choose(value):
                nonlocal option
                option = value
            call.choose = choose
            return call
        @with_option
        def work(x):
            return x * scale
        class Settings:
            rate = step = 1
        class Changed(Settings):
            rate = 2
        functions, scale = {"work": work}, 1
        def see(x):
            return functions["work"](x), Changed.rate, Changed.step, Settings.step
        def use():
            return defined_later()
        with context.Pool(1) as pool:
            assert [pool.apply(see, (5,)) for _ in range(2)] == [(5, 2, 1, 1)] * 2
            work.choose(2)
            assert pool.apply(see, (5,)) == (10, 2, 1, 1)
            Changed.rate, Settings.step = 1, 3  # now as in the base
            assert pool.apply(see, (5,)) == (10, 1, 3, 3)
            scale = 3
            assert pool.apply(see, (5,)) == (30, 1, 3, 3)
            try:
                pool.apply(use)
            except NameError:
                defined_later = lambda: 4
            assert pool.apply(use) == 4
        """,
    )


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


def test_functions_that_refer_to_tensors(tmp_path) -> None:
    """Regression: handles in the code store belonged to one message, and failed in the second reader's.

    Each pool has one worker, which reads one message of the function.
    """
    run_with_server(
        tmp_path,
        """
        import shmtensor as st
        tensor = st.ones(4)
        several = {"first": tensor}
        def by_global():
            return int(tensor.numpy().sum())
        def by_dict():
            return int(several["first"].numpy().sum())
        def by_default(given=tensor):
            return int(given.numpy().sum())
        class Owner:
            attribute = tensor
            def method(self):
                return int(self.attribute.numpy().sum())
        def make():
            inner = tensor
            return lambda: int(inner.numpy().sum())
        closure, owner = make(), Owner()
        array = tensor.numpy()
        def by_array():
            return int(array.sum())
        functions = (by_global, by_dict, by_default, by_array, owner.method, closure, lambda: by_global())
        tasks = context.Queue()
        def work():
            assert tasks.get()() == 4
        for function in functions:
            with context.Pool(1) as first, context.Pool(1) as second:
                for pool in (first, second, first, second):
                    assert pool.apply(function) == 4
            with ProcessPoolExecutor(1, mp_context=context) as executor:
                assert executor.submit(function).result() == 4
            for _ in range(2):
                tasks.put(function)
                worker = context.Process(target=work)
                worker.start()
                worker.join()
                assert worker.exitcode == 0, function
        tensor = st.zeros(4)
        with context.Pool(1) as first, context.Pool(1) as second:
            assert [pool.apply(by_global) for pool in (first, second, first, second)] == [0] * 4
        """,
    )
