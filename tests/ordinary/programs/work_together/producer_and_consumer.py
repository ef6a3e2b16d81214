"""A producer and a consumer, which ends at a sentinel."""
# methods: spawn server

import multiprocessing as mp
import sys


def produce(queue, count):
    for number in range(count):
        queue.put({"number": number, "text": f"item {number}"})
    queue.put(None)


def consume(queue, results):
    total = 0
    while True:
        item = queue.get()
        if item is None:
            break
        total += item["number"]
    results.put(("total", total))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue, results = mp.Queue(), mp.Queue()
    processes = [
        mp.Process(target=produce, args=(queue, 100)),
        mp.Process(target=consume, args=(queue, results)),
    ]
    for process in processes:
        process.start()
    print(results.get())
    for process in processes:
        process.join()
    print([process.exitcode for process in processes], queue.empty(), results.empty())
