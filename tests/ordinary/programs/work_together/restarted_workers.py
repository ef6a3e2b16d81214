"""A supervisor restarts workers that crash; a task that crashed its worker is given up after two attempts."""
# methods: fork server

import multiprocessing as mp
import os
import signal
import sys
from multiprocessing.connection import wait


def work(connection):
    for task in iter(connection.recv, None):
        if task == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "exit":
            os._exit(7)
        connection.send(task.upper())


class Worker:
    def __init__(self):
        self.connection, theirs = mp.Pipe()
        self.process = mp.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, task):
        self.connection.send(task)
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise RuntimeError(f"exit code {self.process.exitcode}") from None


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    worker, pids = Worker(), []
    for task in ("one", "crash", "two", "exit", "three"):
        for attempt in range(2):
            pids.append(worker.process.pid)
            try:
                print(task, worker.run(task))
                break
            except RuntimeError as error:
                print(task, "attempt", attempt, error, wait([worker.process.sentinel], 0) != [])
                worker = Worker()
    print(len(set(pids)))
    worker.connection.send(None)
    worker.process.join()
    print(worker.process.exitcode)
