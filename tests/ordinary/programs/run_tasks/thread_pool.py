"""The same program with threads: `ThreadPool` and `multiprocessing.dummy`."""
# methods: fork server

import multiprocessing as mp
import multiprocessing.dummy
import sys
import threading
from multiprocessing.pool import Pool, ThreadPool

local = threading.local()


def start(value):
    local.value = value


def add(number):
    return number + local.value


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with ThreadPool(4, start, (100,)) as pool:
        print(
            pool.map(add, range(5)), list(pool.imap(lambda x: x * 2, range(3))), pool.apply(lambda: "lambda")
        )
        print(sorted(pool.imap_unordered(add, range(5))))
        print(pool.apply_async(divmod, (7, 2)).get())
        try:
            pool.map(lambda x: 1 / x, [1, 0])
        except ZeroDivisionError as error:
            print(error)
    from multiprocessing.dummy import Pool as DummyPool
    from multiprocessing.dummy import Process, Queue

    with DummyPool(2) as pool:
        print(pool.starmap(pow, [(2, 3), (3, 2)]))
    queue = Queue()
    process = Process(target=queue.put, args=({"a": 1},))
    process.start()
    process.join()
    print(queue.get())
    with Pool(2) as pool:
        print(pool.map(abs, [-1, -2]))
