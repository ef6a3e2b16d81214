"""Ends of a pipe with one direction, and what they refuse."""
# methods: fork server

import multiprocessing as mp
import sys


def attempt(call, *args):
    try:
        print(call(*args))
    except (OSError, EOFError, ValueError, TypeError) as error:
        print(type(error).__name__, error)


def tell(writer, values):
    for value in values:
        writer.send(value)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    reader, writer = mp.Pipe(False)
    print(reader.readable, reader.writable, writer.readable, writer.writable)
    attempt(reader.send, 1)
    attempt(writer.recv)
    attempt(writer.poll)
    attempt(writer.send_bytes, "text")
    attempt(writer.send_bytes, b"abc", 5)
    attempt(writer.send_bytes, b"abc", -1)
    attempt(writer.send, (i for i in "ab"))
    process = mp.Process(target=tell, args=(writer, [None, 0, "", [], "end"]))
    process.start()
    print(list(iter(reader.recv, "end")))
    process.join()
    writer.send_bytes(b"x" * 10)
    attempt(reader.recv_bytes, 4)
    attempt(reader.fileno)
    print(reader.closed)
    writer.close()
    print(writer.closed)
    attempt(writer.fileno)
