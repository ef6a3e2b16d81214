"""A forked child has no part in the event loop of its parent, from its first instruction."""

from __future__ import annotations

from tests.helpers.children import output, run_beside, run_program, write_program


def test_child_of_an_event_loop_handles_signals_as_a_new_program() -> None:
    output(run_beside(__file__, "signals", "event_loop"))


def test_child_of_asyncio_handles_signals_as_a_new_program() -> None:
    """Regression: since Python 3.12 asyncio resets the descriptor in the child, but not the handlers."""
    output(run_beside(__file__, "signals", "asyncio_loop"))


def test_child_inherits_handlers_of_a_program_without_event_loop() -> None:
    output(run_beside(__file__, "signals", "no_loop"))


def test_signal_at_the_begin_of_a_child_reaches_the_child_alone() -> None:
    """Regression: before the child had reset anything, the loop of the parent received its signals."""
    done = run_beside(__file__, "signals", "early_signal")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_child_is_killed_if_a_handler_raises_right_after_the_fork(tmp_path) -> None:
    """Regression: the child ran on, and no Process object knew of it."""
    program = """
        import os, signal, sys, time
        import shmtensor.multiprocessing as mp

        class Interrupted(Exception):
            pass

        def handler(number, frame):
            raise Interrupted

        signal.signal(signal.SIGUSR1, handler)
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGUSR1))
        process = mp.get_context("fork").Process(target=time.sleep, args=(1000,))
        try:
            process.start()
        except Interrupted:
            print(process.exitcode)
    """
    done = run_program(write_program(tmp_path, program))
    assert (done.returncode, done.stdout) == (0, "-9\n"), done.stderr
