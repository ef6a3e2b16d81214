"""A worker gets parts of images: colours reversed, every second pixel, a crop, upside down, transposed."""

import multiprocessing as mp
import sys

import numpy as np


def describe(image):
    brightest = np.unravel_index(int(image.argmax()), image.shape)
    return image.shape, image.strides, image.flags.writeable, int(image.sum()), [int(i) for i in brightest]


def answer(tasks, results):
    while (image := tasks.get()) is not None:
        results.put(describe(image))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.SimpleQueue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    for size in (8, 300):
        image = (np.arange(size * size * 3, dtype="u4") * 7 % 251).astype("u1").reshape(size, size, 3)
        part = slice(size // 4, size // 2)
        for view in (
            image,
            image[..., ::-1],
            image[::2, ::2],
            image[part, part],
            image[::-1],
            image[..., 0].T,
        ):
            tasks.put(view)
            print(results.get())
    tasks.put(None)
    worker.join()
