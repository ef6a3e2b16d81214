"""A worker for each task answers through its own pipe; the program waits for whichever is ready."""
# methods: fork spawn

import multiprocessing as mp
import sys
from multiprocessing.connection import wait


def work(writer, name):
    with writer:
        for number in range(3):
            writer.send((number, name))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    readers, found = [], []
    for number in range(3):
        reader, writer = mp.Pipe(duplex=False)
        readers.append(reader)
        process = mp.Process(target=work, args=(writer, f"worker {number}"))
        process.start()
        writer.close()  # so that the worker's end is the only one
    while readers:
        for reader in wait(readers):
            try:
                found.append(reader.recv())
            except EOFError:
                readers.remove(reader)
                reader.close()
    print(*sorted(found), sep="\n")
    for process in mp.active_children():
        process.join()
