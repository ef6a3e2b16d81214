"""Queues after `close`, and copies of them."""

import copy
import multiprocessing as mp
import pickle
import sys


def attempt(call):
    try:
        return call()
    except (OSError, ValueError):  # the class depends on the queue
        return "closed"


def finish(tasks):
    tasks.get()
    tasks.close()
    tasks.task_done()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    for queue in (mp.Queue(3), mp.JoinableQueue(3)):
        queue.close()
        queue.join_thread()
        print(queue.qsize(), queue.full())
        for call in (queue.get, queue.get_nowait, lambda queue=queue: queue.put(1)):
            print(attempt(call))
    simple = mp.SimpleQueue()
    simple.close()
    try:
        simple.put(1)
    except OSError:
        print("closed")
    for call in (simple.get, simple.empty):
        print(attempt(call))

    tasks = mp.JoinableQueue()
    worker = mp.Process(target=finish, args=(tasks,))
    worker.start()
    tasks.put("one")
    tasks.close()
    tasks.join()
    worker.join()
    print(worker.exitcode)

    for make_copy in (pickle.dumps, copy.copy, copy.deepcopy):
        for queue in (mp.Queue(), mp.JoinableQueue(), mp.SimpleQueue()):
            try:
                make_copy(queue)
            except RuntimeError as error:
                print(str(error).split(" inheritance")[0])
