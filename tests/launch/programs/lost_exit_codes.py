"""A parent whose SIGCHLD handler takes the exit codes of its workers.

`test_lost_exit_codes.py` runs it. Arguments: METHOD SETTINGS TAKEN.
"""

import os
import signal
import sys
import time

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
    return None


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
            work, (how,), nprocs=1 + (how == "wait"), join=False, start_method=method, env=eval(settings)
        )
        try:
            print(how, *context.results(), *[process.exitcode for process in context.processes])
        except mp.ProcessRaisedException as error:
            print(how, repr(error.__cause__), context.processes[0].exitcode)
        except mp.ProcessExitedException as error:
            print(how, error.exit_code, error, hasattr(error, "__notes__"))
        assert not mp.active_children(), "they count as alive"
