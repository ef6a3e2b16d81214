"""The reader decides between by value and by name; merely using a context changes nothing."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside
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
