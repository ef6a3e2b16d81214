"""Subclasses of the queues have their own parameters, attributes and state."""

import multiprocessing as mp
import sys
from multiprocessing.queues import JoinableQueue, Queue, SimpleQueue


class CountingQueue(Queue):  # the recipe for systems without `qsize`
    def __init__(self, *args, **kwargs):
        super().__init__(*args, ctx=mp.get_context(), **kwargs)
        self.size = mp.Value("i", 0)

    def __getstate__(self):
        return {"parent": super().__getstate__(), "size": self.size}

    def __setstate__(self, state):
        super().__setstate__(state["parent"])
        self.size = state["size"]

    def add(self, number):
        with self.size.get_lock():
            self.size.value += number

    def put(self, *args, **kwargs):
        super().put(*args, **kwargs)
        self.add(1)

    def get(self, *args, **kwargs):
        item = super().get(*args, **kwargs)
        self.add(-1)
        return item

    def qsize(self):
        return self.size.value


class TaggedQueue(SimpleQueue):
    def __init__(self, tag):
        super().__init__(ctx=mp.get_context())
        self.tag = tag

    def __getstate__(self):
        return (*super().__getstate__(), self.tag)

    def __setstate__(self, state):
        super().__setstate__(state[:-1])
        self.tag = state[-1]

    def put(self, item):
        super().put((self.tag, item))


class Tasks(JoinableQueue):
    def __init__(self, names, most=3):
        super().__init__(most, ctx=mp.get_context())
        for name in names:
            self.put(name)


def work(counting, tagged, tasks):
    counting.put("a")
    counting.put("b")
    print(counting.qsize(), flush=True)
    tagged.put(tasks.get())
    tasks.task_done()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    counting, tagged, tasks = CountingQueue(5), TaggedQueue("tag"), Tasks(["only"], most=1)
    print(tasks.full(), tasks._maxsize)
    process = mp.Process(target=work, args=(counting, tagged, tasks))
    process.start()
    tasks.join()
    process.join()
    print(process.exitcode, counting.qsize(), tagged.get())
    print(counting.get(timeout=60), counting.qsize())
