"""Each worker opens its connection in an initializer, and tasks use it by a global variable."""
# methods: fork server

import multiprocessing as mp
import os
import sys
from concurrent.futures import ProcessPoolExecutor

connection = None


class Connection:
    def __init__(self, host, options):
        self.host, self.options, self.pid = host, options, os.getpid()


def connect(host, **options):
    global connection
    assert connection is None
    connection = Connection(host, options)


def connect_to(host, port):
    connect(host, port=port)


def query(number):
    return connection.host, connection.options, connection.pid == os.getpid(), number


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Pool(2, connect_to, ("db.local", 5432)) as pool:
        print(pool.map(query, range(3)))
    with context.Pool(1, initializer=connect, initargs=["db.local"]) as pool:
        print(pool.map(query, range(2)))
    with ProcessPoolExecutor(2, mp_context=context, initializer=connect_to, initargs=("x", 1)) as executor:
        print(list(executor.map(query, range(3))))
    print(connection)
