"""Processes wait for each other with an Event, a Condition and a Barrier."""
# methods: fork spawn

import multiprocessing as mp
import sys


def work(start, condition, stage, barrier, results):
    start.wait()
    with condition:
        condition.wait_for(lambda: stage.value == 1)
    position = barrier.wait(60)
    results.put((position, start.is_set(), stage.value))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    start, condition, stage = mp.Event(), mp.Condition(), mp.Value("i", 0)
    barrier, results = mp.Barrier(3), mp.Queue()
    processes = [mp.Process(target=work, args=(start, condition, stage, barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    print(start.is_set(), start.wait(0), results.empty())
    start.set()
    with condition:
        stage.value = 1
        condition.notify_all()
    own = barrier.wait(60)
    found = [results.get() for _ in processes]
    print(sorted([own] + [position for position, *_ in found]), {tuple(rest) for _, *rest in found})
    for process in processes:
        process.join()
    print(barrier.parties, barrier.n_waiting, barrier.broken)
    barrier.abort()
    try:
        barrier.wait()
    except Exception as error:
        print(type(error).__name__, barrier.broken)
    start.clear()
    print(start.is_set())
