"""Connections, sockets and ends of pipes travel through pipes; a worker answers through what it got."""
# methods: fork forkserver

import multiprocessing as mp
import os
import socket
import sys


def answer(requests):
    for kind, channel, value in iter(requests.recv, None):
        if kind == "connection":
            channel.send(value * 2)
        elif kind == "socket":
            channel.sendall(value)
        channel.close()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    requests, theirs = mp.Pipe()
    worker = mp.Process(target=answer, args=(theirs,))
    worker.start()
    for value in (21, "ab", [1]):
        reader, writer = mp.Pipe(duplex=False)
        requests.send(("connection", writer, value))
        print(reader.recv())
        writer.close()
        try:
            reader.recv()
        except EOFError:
            print("end")
    left, right = socket.socketpair()
    requests.send(("socket", right, b"by socket"))
    print(left.recv(100))
    right.close()
    print(left.recv(100))
    requests.send(None)
    worker.join()
    print(worker.exitcode, os.getpid() != worker.pid)
