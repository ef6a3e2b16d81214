"""A thread of the program reads the results of its processes while the main thread waits for them."""
# methods: fork server

import multiprocessing as mp
import sys
import threading


def work(queue, name):
    for number in range(100):
        queue.put((name, number, "x" * 1000))


def read(queue, counts):
    for name, _, text in iter(queue.get, None):
        counts[name] = counts.get(name, 0) + len(text)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue, counts = mp.Queue(10), {}
    processes = [mp.Process(target=work, args=(queue, name)) for name in "ab"]
    for process in processes:
        process.start()
    thread = threading.Thread(target=read, args=(queue, counts), daemon=True)
    thread.start()
    for process in processes:
        process.join()
    queue.put(None)
    thread.join()
    queue.close()
    queue.join_thread()
    print(sorted(counts.items()), [process.exitcode for process in processes])
