"""At most two of six workers are in a part of the program at the same time."""

import multiprocessing as mp
import sys
import time


def work(units, inside, most):
    for _ in range(3):
        with units:
            with inside:
                inside.value += 1
                most.value = max(most.value, inside.value)
            time.sleep(0.005)
            with inside:
                inside.value -= 1


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    units, inside, most = mp.BoundedSemaphore(2), mp.Value("i"), mp.Value("i")
    workers = [mp.Process(target=work, args=(units, inside, most)) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(most.value <= 2, inside.value, units.get_value())
