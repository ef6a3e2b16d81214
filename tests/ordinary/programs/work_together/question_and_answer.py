"""A pipe in both directions: requests, answers, `poll`, bytes, and the end of the other side."""
# methods: fork server

import multiprocessing as mp
import sys


def serve(connection):
    while True:
        request = connection.recv()
        if request == "stop":
            break
        try:
            connection.send(("ok", eval(request)))
        except Exception as error:
            connection.send(("error", error))
    connection.send_bytes(b"raw bytes")
    connection.send_bytes(bytearray(b"0123456789"), 2, 5)
    connection.close()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    ours, theirs = mp.Pipe()
    process = mp.Process(target=serve, args=(theirs,))
    process.start()
    theirs.close()
    print(ours.poll(), ours.poll(0.01))
    for request in ("1 + 1", "'a' * 3", "1 / 0", "undefined", "[None] * 3"):
        ours.send(request)
        print(ours.poll(20), *map(repr, ours.recv()))
    ours.send("stop")
    print(ours.recv_bytes())
    buffer = bytearray(8)
    print(ours.recv_bytes_into(buffer, 1), buffer)
    process.join()
    print(ours.poll())
    for call in (ours.recv, ours.recv_bytes):
        try:
            call()
        except EOFError as error:
            print("EOFError", error)
    try:
        ours.send("too late")
    except OSError as error:
        print(type(error).__name__)
    print(ours.closed, ours.readable, ours.writable)
    ours.close()
    try:
        ours.recv()
    except OSError as error:
        print(error)
