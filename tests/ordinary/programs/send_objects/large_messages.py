"""Messages from nothing to megabytes: text, bytes, lists of numbers, nested dicts, many small ones."""
# methods: spawn server

import multiprocessing as mp
import sys
import zlib


def checksum(value):
    return zlib.crc32(value if isinstance(value, (bytes, bytearray)) else repr(value).encode())


def answer(tasks, results):
    for value in iter(tasks.get, None):
        results.put((checksum(value), len(value), value))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    for value in (
        "",
        b"",
        [],
        "x" * 65_535,
        b"y" * 65_536,
        bytearray(range(256)) * 5000,
        "é" * 100_000,
        list(range(50_000)),
        {str(i): [i, {"nested": (i,)}] for i in range(5_000)},
        [b"%d" % i * 100 for i in range(1000)],
        [0.1 * i for i in range(10_000)],
    ):
        tasks.put(value)
        there, length, back = results.get()
        print(type(back).__name__, length, there == checksum(value), back == value)
    for number in range(2000):
        tasks.put([number])
    print(sum(results.get()[2][0] for _ in range(2000)))
    tasks.put(None)
    worker.join()
