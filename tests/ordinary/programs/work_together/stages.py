"""Three stages with queues between them: read, transform, collect; each passes the end on."""
# methods: spawn server

import multiprocessing as mp
import sys


def read(lines, out):
    for number, line in enumerate(lines):
        out.put((number, line))
    out.put(None)


def transform(source, out):
    for number, line in iter(source.get, None):
        out.put((number, line.strip().title()))
    out.put(None)


def collect(source, result):
    result.send([line for _, line in sorted(iter(source.get, None))])


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    lines = [f" line number {number}\n" for number in range(20)]
    first, second = mp.Queue(5), mp.SimpleQueue()
    reader, writer = mp.Pipe(duplex=False)
    stages = [(read, (lines, first)), (transform, (first, second)), (collect, (second, writer))]
    processes = [mp.Process(target=target, args=args) for target, args in stages]
    for process in processes:
        process.start()
    print(reader.recv())
    for process in processes:
        process.join()
        print(process.exitcode)
