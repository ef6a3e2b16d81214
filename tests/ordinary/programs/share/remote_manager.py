"""A manager listens at an address; another process connects to it with a key, others are refused."""
# methods: fork spawn forkserver

import multiprocessing as mp
import sys
import tempfile
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from multiprocessing.managers import BaseManager
from queue import Queue

tasks = Queue()


def get_tasks():
    return tasks


class QueueManager(BaseManager):
    pass


QueueManager.register("tasks", callable=get_tasks)


def connect(address, key):
    manager = QueueManager(address=address, authkey=key)
    try:
        manager.connect()
        manager.tasks().put("from a client")
    except AuthenticationError:
        sys.exit(3)


def talk(address):
    with Client(address, authkey=b"secret") as connection:
        connection.send([1, "two", None])
        connection.send_bytes(b"bytes")
        print(connection.recv()[::-1], flush=True)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        manager = QueueManager(address=f"{folder}/manager", authkey=b"right", ctx=mp.get_context())
        manager.start()
        for key in (b"right", b"wrong"):
            process = mp.Process(target=connect, args=(f"{folder}/manager", key))
            process.start()
            process.join()
            print(process.exitcode)
        print(manager.tasks().get())
        manager.shutdown()
        with Listener(f"{folder}/listener", authkey=b"secret") as listener:
            process = mp.Process(target=talk, args=(listener.address,))
            process.start()
            with listener.accept() as connection:
                print(connection.recv(), connection.recv_bytes())
                connection.send([1, 2, 3])
                process.join()
