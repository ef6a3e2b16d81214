"""A loader's batches: dicts and named tuples of arrays, with strings and numbers, collated by workers."""
# methods: fork server

import multiprocessing as mp
import sys
from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    image: np.ndarray
    label: int
    name: str


class Dataset:
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        image = np.full((3, self.size, self.size), index, dtype="u1")
        return Sample(image, index % 3, f"{index:03}.png")


def collate(samples):
    return {
        "images": np.stack([sample.image for sample in samples]),
        "labels": np.array([sample.label for sample in samples]),
        "names": [sample.name for sample in samples],
    }


def load(dataset, indices, batches):
    for number, index in iter(indices.get, None):
        try:
            batches.put((number, collate([dataset[i] for i in index])))
        except IndexError as error:
            batches.put((number, error))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    dataset, indices, batches = Dataset(30, 64), mp.Queue(), mp.Queue()
    workers = [mp.Process(target=load, args=(dataset, indices, batches), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    for epoch in range(2):
        for number in range(4):
            indices.put((number, range(number * 8, number * 8 + 8 if number < 3 else 31 - epoch)))
        received = dict(batches.get() for _ in range(4))
        for number in sorted(received):
            batch = received[number]
            if isinstance(batch, IndexError):
                print(number, repr(batch))
                continue
            scaled = batch["images"].astype("f4") / 255
            print(
                number,
                batch["images"].shape,
                round(float(scaled.mean()), 4),
                batch["labels"],
                batch["names"][-1],
            )
    for _ in workers:
        indices.put(None)
    for worker in workers:
        worker.join()
