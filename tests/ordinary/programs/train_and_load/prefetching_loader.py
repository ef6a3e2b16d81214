"""A loader that loads a few batches ahead, restarts for each epoch, seeds workers, and is left early."""
# methods: fork server

import multiprocessing as mp
import sys

import numpy as np


def load(seed, tasks, batches):
    random = np.random.default_rng(seed)
    for index, rows in iter(tasks.get, None):
        noise = random.random(len(rows)) < 2
        batches.put((index, {"x": np.outer(rows, np.ones(5000)), "keep": noise, "rows": list(rows)}))


class Loader:
    def __init__(self, count, batch_size, workers, prefetch=2):
        self.batches_of_rows = [range(i, min(i + batch_size, count)) for i in range(0, count, batch_size)]
        self.workers, self.prefetch = workers, prefetch

    def __iter__(self):
        tasks, batches = mp.Queue(), mp.Queue()
        processes = [
            mp.Process(target=load, args=(seed, tasks, batches), daemon=True) for seed in range(self.workers)
        ]
        for process in processes:
            process.start()
        try:
            waiting, ready = enumerate(self.batches_of_rows), {}
            for _ in range(self.workers * self.prefetch):
                tasks.put(next(waiting, None))
            for index in range(len(self.batches_of_rows)):
                while index not in ready:
                    number, batch = batches.get()
                    ready[number] = batch
                tasks.put(next(waiting, None))
                yield ready.pop(index)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    loader = Loader(22, 4, workers=2)
    for batch in loader:
        print(batch["x"].shape, float(batch["x"].sum()), batch["keep"].all(), batch["rows"])
    for number, batch in enumerate(loader):
        if number == 1:
            print("left early", batch["rows"])
            break
    print(len(mp.active_children()))
