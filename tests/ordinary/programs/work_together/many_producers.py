"""Several producers with a bounded queue, several consumers, one sentinel each; nothing is lost."""
# methods: fork server

import multiprocessing as mp
import sys


def produce(queue, name):
    for number in range(50):
        queue.put((name, number))


def consume(queue, results):
    found = list(iter(queue.get, "STOP"))
    results.put(found)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue, results = mp.Queue(maxsize=4), mp.Queue()
    producers = [mp.Process(target=produce, args=(queue, name)) for name in "abc"]
    consumers = [mp.Process(target=consume, args=(queue, results)) for _ in range(2)]
    for process in producers + consumers:
        process.start()
    for process in producers:
        process.join()
    for _ in consumers:
        queue.put("STOP")
    lists = [results.get() for _ in consumers]
    for process in consumers:
        process.join()
    print(sorted(sum(lists, [])) == [(name, number) for name in "abc" for number in range(50)])
    for found in lists:  # each producer's items arrive in its order
        for name in "abc":
            numbers = [number for other, number in found if other == name]
            print(numbers == sorted(numbers))
