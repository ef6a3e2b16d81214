"""Messages for readers that are not known; `test_server_readers.py` runs it."""

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import shmtensor.multiprocessing as mp

context = mp.get_context("server")
lock = threading.Lock()


def use_lock():
    return lock


class Item: ...


def check_raises(dumps, function):
    try:
        dumps(function)
    except pickle.PicklingError as error:
        assert "'server'" in str(error), error
    else:
        raise SystemExit("no error was raised")


queue = context.Queue()
check_raises(queue.put, use_lock)
check_raises(context.SimpleQueue().put, use_lock)
check_raises(context.Pipe()[0].send, use_lock)
check_raises(mp.get_context("server").Queue().put, lambda: lock)
queue.put(Item())  # before a worker exists
assert ForkingPickler.dumps(use_lock) == pickle.dumps(use_lock)


def take(queue, answers):
    answers.put([queue.get(), type(answers.get())])


answers = mp.get_context("spawn").SimpleQueue()
process = context.Process(target=take, args=(queue, answers))
process.start()
answers.put(Item())
process.join()
thing, kind = answers.get()
assert type(thing) is kind is Item
assert ForkingPickler.loads(ForkingPickler.dumps(use_lock)) is use_lock
assert len(ForkingPickler.dumps(lambda: 1)) > 300
check_raises(ForkingPickler.dumps, lambda: lock)
