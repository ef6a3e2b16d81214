"""A task of a pool starts processes itself: a process, a pool, an executor, a manager."""
# not compared: the standard library allows no children of a pool's workers

import multiprocessing as mp
import sys
from concurrent.futures import ProcessPoolExecutor


def square(x):
    return x * x


def with_process(x):
    process = mp.Process(target=square, args=(x,))
    process.start()
    process.join()
    return process.exitcode


def with_pool(x):
    with mp.Pool(2) as pool:
        return sum(pool.map(square, range(x)))


def with_executor(x):
    with ProcessPoolExecutor(1, mp_context=mp.get_context()) as executor:
        return executor.submit(square, x).result()


def with_manager(x):
    with mp.Manager() as manager:
        return sum(manager.list([x, x]))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(1) as pool:
        for task in (with_process, with_pool, with_executor, with_manager):
            print(task.__name__, pool.apply(task, (4,)))

# > with_process 0
# > with_pool 14
# > with_executor 16
# > with_manager 8
