"""The reader decides between by value and by name; merely using a context changes nothing."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside, run_program, write_program
from tests.helpers.server_programs import run_with_server


@pytest.mark.thorough
@pytest.mark.parametrize("action", ["nothing", "context", "all", "objects", "a worker"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_other_methods_get_names(method, action) -> None:
    """Regression: getting the context of server sent all messages by value: exceptions with a lock failed."""
    done = run_beside(__file__, "readers", method, action)
    assert done.stdout.strip() == str(action != "a worker"), done


def test_unknown_reader_gets_a_name_if_pickling_by_value_fails() -> None:
    output(run_beside(__file__, "unknown_readers"))


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


FROM_A_WORKER = """
    import enum
    import sys
    import shmtensor.multiprocessing as mp

    class Kind(enum.Enum):
        ONE = 1

    class Item:
        def __init__(self, number):
            self.number = number

    def double(item):
        return Item(2 * item.number), Kind.ONE

    def work(numbers):
        with mp.get_context("server").Pool(1) as pool:
            items = pool.map(double, map(Item, numbers))
        assert all(type(item) is Item and kind is Kind.ONE for item, kind in items)
        return [item.number for item, _ in items]

    if __name__ == "__main__":
        with mp.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.apply(work, ([1, 2],)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "server"])
def test_worker_of_any_method_starts_workers_of_the_server(tmp_path, method) -> None:
    """Regression: where the main module is `__mp_main__`, its definitions went by name."""
    done = run_program(write_program(tmp_path, FROM_A_WORKER), method)
    assert done.stdout == "[2, 4]\n", done.stderr
