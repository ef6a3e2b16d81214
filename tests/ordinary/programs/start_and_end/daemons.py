"""Daemons end with the program; others are waited for."""

import multiprocessing as mp
import sys
import time


def work(name, event):
    print(name, mp.current_process().daemon, flush=True)
    event.set()
    if name == "daemon":
        time.sleep(1000)
    event.wait()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    for name in ("daemon", "other"):
        event = mp.Event()
        process = mp.Process(target=work, args=(name, event))
        process.daemon = name == "daemon"
        process.start()
        event.wait()
        try:
            process.daemon = False
        except AssertionError as error:
            print(error)
    print("end of the program", flush=True)
