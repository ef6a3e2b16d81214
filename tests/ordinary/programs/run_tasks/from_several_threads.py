"""Threads of the program share one pool and one executor."""
# methods: fork server

import multiprocessing as mp
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def work(name, number):
    return f"{name}{number}"


def use(pool, executor, name):
    mapped = pool.starmap(work, [(name, number) for number in range(5)])
    futures = [executor.submit(work, name.upper(), number) for number in range(5)]
    return mapped + [future.result() for future in futures]


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Pool(2) as pool, ProcessPoolExecutor(2, mp_context=context) as executor:
        executor.submit(abs, 1).result()
        with ThreadPoolExecutor(4) as threads:
            for result in threads.map(lambda name: use(pool, executor, name), "abcd"):
                print(*result)
        made = []
        thread = threading.Thread(target=lambda: made.append(context.Pool(1)))
        thread.start()
        thread.join()
        with made[0] as other:
            print(other.map(abs, [-1, -2]))
