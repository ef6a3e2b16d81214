"""The first examples of a Process: a target, arguments, names, ids of the parent and of the child."""

import multiprocessing as mp
import os
import sys


def info(title, results):
    process, parent = mp.current_process(), mp.parent_process()
    results.put((title, process.name, process.pid == os.getpid(), parent.name, parent.pid, process.daemon))


def hello(name, *rest, greeting="hello", **options):
    print(greeting, name, rest, sorted(options), flush=True)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    print(
        mp.current_process().name, mp.parent_process(), mp.get_start_method(allow_none=False) == sys.argv[1]
    )
    results = mp.Queue()
    process = mp.Process(target=info, args=("function f", results), name="Worker of info")
    print(process.name, process.pid, process.exitcode, process.is_alive(), process.daemon)
    process.start()
    title, *rest, parent_pid, daemon = results.get()
    print(title, rest, parent_pid == os.getpid(), daemon)
    process.join()
    print(process.exitcode, process.is_alive(), process.pid == process.ident)
    process = mp.Process(target=hello, args=("bob", 1, 2), kwargs={"greeting": "hi", "loud": True})
    process.start()
    process.join()
    process = mp.Process()
    process.start()
    process.join()
    print(process.exitcode)
