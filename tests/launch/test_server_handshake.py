"""A start by the worker server succeeds completely or not at all; every reader gets its exit code."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside, wait_until
from tests.launch.test_parent_death import group


def run(tmp_path, function: str) -> list[str]:
    """Run a function of the program, and return the pids of the workers that ran, after the end of all."""
    path = tmp_path / "ran"
    path.touch()
    out = output(run_beside(__file__, "server_handshake", str(path), function))
    wait_until(lambda: not group(int(out.splitlines()[-1])), what="the end of all")
    return path.read_text().split()


# The number of workers that run: one that has no owner does not.
@pytest.mark.parametrize(
    ("case", "workers"),
    [
        ("interrupt_while_a_worker_is_requested", 4),
        ("client_without_free_descriptors", 11),
        ("server_without_free_descriptors", 12),
        ("exit_code_is_read_by_several_threads", 0),
        ("exit_code_is_read_by_a_forked_child", 1),
        ("signal_handler_starts_a_worker_during_a_request", 5),
        ("fork_while_the_server_starts", 4),
        ("process_with_other_rights_gets_its_own_server", 4),
    ],
)
def test_start_succeeds_completely_or_not_at_all(tmp_path, case, workers) -> None:
    assert len(run(tmp_path, case)) == workers


def test_interrupt_while_the_server_starts(tmp_path) -> None:
    """Regression: a late "ready" was mistaken for the reply to the next request."""
    (tmp_path / "interrupting.py").write_text(
        "import os, signal\n"
        "if not os.path.exists('interrupted'):\n"
        "    open('interrupted', 'w').close()\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n"
    )
    assert len(run(tmp_path, "interrupt_while_the_server_starts")) == 3


def test_server_killed_before_it_replies(tmp_path) -> None:
    """Regression: the worker had started, and the client repeated the request: the target ran twice."""
    (tmp_path / "dying.py").write_text(
        "import os, signal\n"
        "def die():\n"
        "    die.forks += 1\n"
        "    if die.forks == 2:\n"  # the first is the server's own
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "die.forks = 0\n"
        "os.register_at_fork(after_in_parent=die)\n"
    )
    assert len(run(tmp_path, "server_killed_before_it_replies")) == 3


def test_server_with_sigchld_ignored(tmp_path) -> None:
    """Regression: the server inherited an ignored SIGCHLD from a launcher, and could not start."""
    assert len(run(tmp_path, "server_with_sigchld_ignored")) == 2
    (tmp_path / "ignoring.py").write_text("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n")
    run(tmp_path, "server_that_ignores_sigchld")


def test_interrupt_before_the_server_ignores_it(tmp_path) -> None:
    """Regression: Ctrl-C ended a server whose interpreter was still starting."""
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    assert len(run(tmp_path, "interrupt_before_the_server_ignores_it")) == 3
