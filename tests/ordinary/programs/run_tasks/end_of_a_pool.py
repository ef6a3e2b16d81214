"""A pool is closed, joined, terminated, in the right order and in wrong ones."""
# methods: fork server

import multiprocessing as mp
import sys
import time


def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__, str(error).partition("<")[0])


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    pool = mp.Pool(2)
    result = pool.map_async(abs, range(-100, 0))
    attempt(pool.join)
    pool.close()
    pool.close()
    pool.join()
    print(sum(result.get()))
    attempt(lambda: pool.apply(abs, (1,)))
    attempt(lambda: pool.__enter__())
    pool.terminate()
    pool.join()
    print(all(not process.is_alive() for process in pool._pool), len(mp.active_children()))

    pool = mp.Pool(1)
    lost = pool.apply_async(time.sleep, (1000,))
    attempt(lambda: lost.get(timeout=0.01))
    attempt(lambda: lost.successful())
    pool.terminate()
    attempt(lambda: pool.map_async(abs, [1]))
    pool.join()
    print(lost.ready(), len(mp.active_children()))
    for wrong in (0, -2):
        attempt(lambda: mp.Pool(wrong))
    attempt(lambda: mp.Pool(1, initializer=5))
