"""Processes that wait are terminated, killed, joined with timeouts, and closed."""

import multiprocessing as mp
import sys
from multiprocessing.connection import wait


def wait_for_ever(ready, never):
    ready.set()
    never.recv()


def attempt(call):
    try:
        print(call())
    except (ValueError, AssertionError) as error:
        print(type(error).__name__, error)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    never, other_end = mp.Pipe()
    for how in ("terminate", "kill"):
        ready = mp.Event()
        process = mp.Process(target=wait_for_ever, args=(ready, never), name=how)
        attempt(process.join)
        process.start()
        ready.wait()
        process.join(0.01)
        print(
            process.exitcode,
            process.is_alive(),
            wait([process.sentinel], 0),
            mp.active_children() == [process],
        )
        attempt(process.close)
        getattr(process, how)()
        print(wait([process.sentinel]) == [process.sentinel])
        process.join()
        print(process.exitcode, process.is_alive(), mp.active_children())
        process.terminate()
        process.join()
        print(process.exitcode, how in repr(process), "stopped" in repr(process))
        process.close()
        for call in (process.is_alive, process.join, lambda: process.exitcode, process.start):
            attempt(call)
