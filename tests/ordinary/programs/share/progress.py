"""Workers count their progress in a Value that an initializer has given them, and stop at an Event."""

import multiprocessing as mp
import sys

counter = stop = None


def start(shared_counter, shared_stop):
    global counter, stop
    counter, stop = shared_counter, shared_stop


def work(number):
    if stop.is_set():
        return None
    with counter.get_lock():
        counter.value += 1
        if number == 7:
            stop.set()
    return number


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    counter, stop = mp.Value("i", 0), mp.Event()
    with mp.Pool(1, initializer=start, initargs=(counter, stop)) as pool:
        done = [number for number in pool.imap(work, range(20)) if number is not None]
    print(done, counter.value, stop.is_set())
