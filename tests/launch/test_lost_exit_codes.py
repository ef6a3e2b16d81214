"""Exit codes are lost if SIGCHLD is ignored, or its handler waits for any child."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_program, write_program

PROGRAM = """
    import os, signal, sys, time
    import shmtensor.multiprocessing as mp

    def work(rank, how):
        if how == "return":
            return rank
        if how == "raise":
            raise OverflowError("the true cause")
        if how == "exit":
            sys.exit(3)
        if how == "wait" and rank == 1:
            time.sleep(60)
        os.kill(os.getpid(), signal.SIGKILL)

    def take_all(*_):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    if __name__ == "__main__":
        method, settings, taken = sys.argv[1:]
        signal.signal(signal.SIGCHLD, signal.SIG_IGN if taken == "ignored" else take_all)
        for how in ("return", "raise", "exit", "kill", "wait"):
            context = mp.start_processes(
                work, (how,), nprocs=1 + (how == "wait"), join=False, start_method=method, env=eval(settings))
            try:
                print(how, *context.results(), *[process.exitcode for process in context.processes])
            except mp.ProcessRaisedException as error:
                print(how, repr(error.__cause__), context.processes[0].exitcode)
            except mp.ProcessExitedException as error:
                print(how, error.exit_code, error, hasattr(error, "__notes__"))
            assert not mp.active_children(), "they count as alive"
"""
ENDS = """\
return 0 0
raise OverflowError('the true cause') 1
exit 3 process 0 terminated with exit code 3 by sys.exit False
kill """


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "settings"), [("fork", None), ("spawn", None), ("spawn", {"A": "1"})], ids=str
)
@pytest.mark.parametrize("taken", ["ignored", "by a handler"])
def test_lost_exit_codes_are_replaced_by_reports(method, settings, taken, tmp_path) -> None:
    """Regression: `join` waited indefinitely; some launchers start programs with SIGCHLD ignored."""
    done = run_program(write_program(tmp_path, PROGRAM), method, str(settings), taken)
    assert done.stdout.startswith(ENDS), done
    if taken == "ignored":  # else either the handler or `join` gets it first
        assert "kill 255 process 0 exited without a report; its exit status was lost: " in done.stdout
        assert "wait 255 process 0 exited without a report; its exit status was lost: " in done.stdout
    assert done.stdout.endswith(" False\n"), "a worker that was terminated is not a failure"
