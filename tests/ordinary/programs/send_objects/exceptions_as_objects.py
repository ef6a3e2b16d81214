"""Exceptions, tracebacks' texts, warnings and groups of them sent as objects."""
# methods: fork server

import multiprocessing as mp
import subprocess
import sys
import traceback
import urllib.error


class Invalid(ValueError):
    def __init__(self, field, reason="missing"):
        super().__init__(field, reason)
        self.field, self.reason = field, reason

    def __str__(self):
        return f"{self.field} is {self.reason}"


class WithKeyword(Exception):
    def __init__(self, *, code=1):
        super().__init__(f"code {code}")
        self.code = code

    def __reduce__(self):
        return rebuild, (self.code,)


def rebuild(code):
    return WithKeyword(code=code)


def raise_nested():
    try:
        int("x")
    except ValueError as error:
        raise Invalid("age") from error


def answer(connection):
    for error in iter(connection.recv, None):
        connection.send((type(error).__name__, str(error), error.args, error))
    try:
        raise_nested()
    except Invalid as error:
        error.text = traceback.format_exc().splitlines()[-1].rpartition(".")[2]
        connection.send(error)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    ours, theirs = mp.Pipe()
    worker = mp.Process(target=answer, args=(theirs,))
    worker.start()
    for error in (
        KeyError("key"),
        OSError(2, "No such file", "name.txt"),
        FileNotFoundError(2, "gone"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        StopIteration(3),
        SystemExit(4),
        KeyboardInterrupt(),
        Invalid("name", "too long"),
        WithKeyword(code=7),
        subprocess.CalledProcessError(1, ["ls"]),
        UserWarning("careful"),
        urllib.error.URLError("refused"),
        Exception(Exception("inner"), [1, 2]),
    ):
        ours.send(error)
        name, text, args, back = ours.recv()
        print(name, text, type(back) is type(error), back.args == error.args or args, sorted(vars(back)))
    ours.send(None)
    back = ours.recv()
    print(repr(back), str(back), back.text, back.__cause__)
    worker.join()
