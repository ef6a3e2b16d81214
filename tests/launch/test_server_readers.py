"""The reader decides between by value and by name; merely using a context changes nothing."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_program, write_program
from tests.helpers.server_programs import run_with_server

ACTIONS = {
    "nothing": "pass",
    "context": "mp.get_context('server')",
    "all": "[mp.get_context(method) for method in mp.get_all_start_methods()]",
    "objects": "[(c.Queue(), c.SimpleQueue(), c.Pipe(), c.Lock()) for c in [mp.get_context('server')]]",
    "a worker": "use_a_worker()",
}

PROGRAM = """
    import pickle, sys, threading
    from multiprocessing.reduction import ForkingPickler
    import multiprocessing
    import shmtensor.multiprocessing as mp

    lock = threading.Lock()
    value = None

    class Failure(Exception):
        lock = lock

    class Item: ...

    def fail():
        with lock:
            raise Failure("mine")

    def initialize(given):
        global value
        value = given

    def give(thing):
        return thing, value

    def fail_to_send():
        return lambda: None

    def use_a_worker():
        process = mp.get_context("server").Process()
        process.start()
        process.join()

    def check(context):
        with context.Pool(1, initialize, (7,)) as pool:
            try:
                pool.apply(fail)
            except Failure as error:
                assert error.args == ("mine",)
            thing, got = pool.apply(give, (Item(),))
            assert type(thing) is Item and got == 7
            assert pool.apply(give, (Item,)) == (Item, 7)
            assert pool.apply(give, (give,)) == (give, 7)
            return pool

    if __name__ == "__main__":
        ACTION
        check(mp.get_context(sys.argv[1]))
        if sys.argv[1] != "server":
            check(multiprocessing.get_context(sys.argv[1]))
            with mp.get_context(sys.argv[1]).Pool(1) as pool:
                for work in (lambda: pool.apply(lambda: None), lambda: pool.apply(fail_to_send)):
                    try:
                        work()
                    except (pickle.PicklingError, AttributeError, multiprocessing.pool.MaybeEncodingError):
                        pass
                    else:
                        raise SystemExit("a lambda was sent")
        print(ForkingPickler.dumps(give) == pickle.dumps(give))
    """


@pytest.mark.thorough
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_other_methods_get_names(tmp_path, method, action) -> None:
    """Regression: getting the context of server sent all messages by value: exceptions with a lock failed."""
    done = run_program(write_program(tmp_path, PROGRAM.replace("ACTION", ACTIONS[action])), method)
    assert done.stdout.strip() == str(action != "a worker"), done


def test_unknown_reader_gets_a_name_if_pickling_by_value_fails(tmp_path) -> None:
    run_with_server(
        tmp_path,
        """
        from multiprocessing.reduction import ForkingPickler
        lock = threading.Lock()
        def use_lock():
            return lock
        class Item: ...
        def check_raises(dumps, function):
            try:
                dumps(function)
            except pickle.PicklingError as error:
                assert "'server'" in str(error), error
            else:
                raise SystemExit("no error was raised")
        queue = context.Queue()
        check_raises(queue.put, use_lock)
        check_raises(context.SimpleQueue().put, use_lock)
        check_raises(context.Pipe()[0].send, use_lock)
        check_raises(mp.get_context("server").Queue().put, lambda: lock)
        queue.put(Item())  # before a worker exists
        assert ForkingPickler.dumps(use_lock) == pickle.dumps(use_lock)
        def take(queue, answers):
            answers.put([queue.get(), type(answers.get())])
        answers = mp.get_context("spawn").SimpleQueue()
        process = context.Process(target=take, args=(queue, answers))
        process.start()
        answers.put(Item())
        process.join()
        thing, kind = answers.get()
        assert type(thing) is kind is Item
        assert ForkingPickler.loads(ForkingPickler.dumps(use_lock)) is use_lock
        assert len(ForkingPickler.dumps(lambda: 1)) > 300
        check_raises(ForkingPickler.dumps, lambda: lock)
        """,
    )


def test_forked_child_of_a_program_with_workers(tmp_path) -> None:
    """Regression: the child sent an instance of a copy of the class."""
    run_with_server(
        tmp_path,
        """
        class Item: ...
        class Other: ...
        def put(queue):
            queue.put((Item(), Other()))
        def get(queue, answers):
            answers.put(queue.get())
        with context.Pool(1) as pool:
            assert type(pool.apply(Item)) is Item
            standard = mp.get_context("fork").SimpleQueue()
            process = mp.get_context("fork").Process(target=put, args=(standard,))
            process.start()
            assert [type(thing) for thing in standard.get()] == [Item, Other]
            process.join()
        queue, answers = context.SimpleQueue(), context.SimpleQueue()
        reader = context.Process(target=get, args=(queue, answers))
        writer = mp.get_context("fork").Process(target=put, args=(queue,))
        reader.start()
        writer.start()
        assert [type(thing) for thing in answers.get()] == [Item, Other]
        """,
    )
