"""Locks and values are sent through queues to processes that run already."""

# not compared: the standard library shares them by inheritance only
import multiprocessing as mp
import sys


def work(jobs, results):
    for lock, counter, done in iter(jobs.get, None):
        for _ in range(1000):
            with lock:
                counter.value += 1
        results.put(counter)
        done.set()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    jobs, results = mp.Queue(), mp.Queue()
    workers = [mp.Process(target=work, args=(jobs, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    lock, counter = mp.Lock(), mp.Value("i", 0, lock=False)
    events = [mp.Event() for _ in workers]
    for event in events:
        jobs.put((lock, counter, event))
    print([event.wait(60) for event in events], counter.value)
    print([results.get().value for _ in workers])
    for _ in workers:
        jobs.put(None)
    for worker in workers:
        worker.join()
    print([worker.exitcode for worker in workers])

# > [True, True] 2000
# > [2000, 2000]
# > [0, 0]
