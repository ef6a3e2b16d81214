"""A daemon closes all its descriptors, and perhaps its session's manager is killed besides."""

from __future__ import annotations

from tests.helpers.children import await_end_of_manager, output, run_beside


def test_daemon_that_inherits_no_tensor_joins_again() -> None:
    assert output(run_beside(__file__, "closed_descriptors", "inherits_nothing")) == "0\n"


def test_daemon_that_inherits_a_tensor_can_read_but_neither_send_nor_receive() -> None:
    """The files that have the numbers of its descriptors are neither used nor closed."""
    *errors, session = output(run_beside(__file__, "closed_descriptors", "inherits_a_tensor")).splitlines()
    assert len(errors) == 4, errors
    for error in errors:
        assert error.startswith(
            f"the descriptor of the memory of session {session} was closed by this program;"
        )
    await_end_of_manager(session)


def test_daemon_without_descriptors_can_wait_for_a_queue() -> None:
    """Its queue neither reads nor closes the files that have the numbers of its descriptors."""
    assert output(run_beside(__file__, "closed_descriptors", "watcher")) == "0\n"


def test_lost_session_of_a_lone_daemon_is_reported() -> None:
    """With the manager, the last descriptor of the session is gone; what the daemon has mapped stays."""
    send, ask = output(run_beside(__file__, "closed_descriptors", "alone")).splitlines()
    assert "was closed by this program" in send
    assert "this program closed the descriptor of the session, and no other" in ask
