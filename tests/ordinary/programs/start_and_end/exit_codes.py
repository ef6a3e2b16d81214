"""How processes end, and what the parent sees of it."""
# methods: fork forkserver server

import multiprocessing as mp
import os
import signal
import sys


def end(how):
    sys.stderr.close()
    os.close(2)
    os.open(os.devnull, os.O_WRONLY)
    sys.stderr = open(2, "w", closefd=False)
    how, _, argument = how.partition(" ")
    if how == "exit":
        sys.exit(eval(argument))
    elif how == "os._exit":
        os._exit(int(argument))
    elif how == "kill":
        os.kill(os.getpid(), getattr(signal, argument))
    elif how == "raise":
        raise {"SystemExit": SystemExit, "KeyError": KeyError, "KeyboardInterrupt": KeyboardInterrupt}[
            argument
        ]
    return argument


WAYS = ["return 5", "exit 0", "exit 3", "exit None", "exit 'text'", "exit True", "exit 256", "os._exit 7"]
WAYS += ["kill SIGTERM", "kill SIGKILL", "raise SystemExit", "raise KeyError", "raise KeyboardInterrupt"]

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    processes = [mp.Process(target=end, args=(way,)) for way in WAYS]
    for process in processes:
        process.start()
    for way, process in zip(WAYS, processes):
        process.join()
        print(way, process.exitcode, process.is_alive())
