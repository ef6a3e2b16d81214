"""A list has the same long text many times: it is sent once, and arrives as one object."""

import multiprocessing as mp
import sys


def answer(tasks, results):
    while (items := tasks.get()) is not None:
        results.put((type(items).__name__, len(items), len({id(item) for item in items})))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    text, content, word = "x" * 1_000_000, b"y" * 1_000_000, "word " * 3
    for items in (
        [text] * 100,
        (content,) * 100,
        [text, content, word] * 30,
        [word, "other"] * 5,
        [[text], [text]],
    ):
        tasks.put(items)
        print(results.get())
    tasks.put(None)
    worker.join()
