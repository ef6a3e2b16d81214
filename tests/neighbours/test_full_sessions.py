"""A session with as many processes as it can have: the next one raises an error that names what to do."""

from __future__ import annotations

import pytest

from tests.helpers.children import await_end_of_manager, output, run_beside


@pytest.mark.thorough
def test_child_without_a_slot_reports_that_all_are_taken() -> None:
    """It reported that the manager could not be reached."""
    done = run_beside(__file__, "full_session")
    assert done.returncode == 0, done.stderr
    reason = (
        "refuses: all 1024 slots of the session are taken, one by each process that uses it; end some, or "
        "let others use another session (SHMTENSOR_SESSION)"
    )
    assert done.stdout.startswith("this process was forked without a slot in the session (the manager of")
    assert reason in done.stdout
    childs, parents = sorted(done.stderr.splitlines())  # the two processes write side by side
    assert parents.startswith("shmtensor: cannot assign a slot to a forked child: ")
    assert "the tensors it inherited are not protected" in childs
    assert reason in parents
    assert reason in childs
    session = done.stdout.split("manager of session ")[1][:32]
    await_end_of_manager(session)


def test_manager_without_descriptors_rejects_a_process_that_reports_it() -> None:
    count, reason = output(run_beside(__file__, "few_descriptors")).split(" ", 1)
    assert 5 < int(count) < 20
    assert reason.startswith("cannot use session ")
    assert "its descriptors are used up, about three for each process: raise the hard limit" in reason
