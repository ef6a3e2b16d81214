"""Exceptions of tasks arrive with their type, arguments, attributes, causes and the worker's traceback."""
# methods: fork server

import multiprocessing as mp
import sys
import traceback


class OutOfStock(LookupError):
    code = 17


class Wrapped(Exception):
    def __init__(self, item, count=0):
        super().__init__(item, count)
        self.item, self.count = item, count

    def __str__(self):
        return f"{self.count} of {self.item}"


def fail(number):
    if number == 0:
        return 1 / 0
    if number == 1:
        raise OutOfStock("screws")
    if number == 2:
        raise Wrapped("nails", 5)
    if number == 3:
        try:
            {}["key"]
        except KeyError as error:
            raise RuntimeError("no such entry") from error
    if number == 4:
        error = ValueError("with an attribute")
        error.position = 12
        raise error
    if number == 5:
        open("/no/such/file")
    if number == 6:
        b"\xff".decode()
    raise AssertionError


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        for number in range(8):
            try:
                pool.apply(fail, (number,))
            except Exception as error:
                print(type(error).__name__, error.args, str(error), sorted(vars(error)))
                print(type(error.__cause__).__name__, "in fail" in "".join(traceback.format_exception(error)))
        result = pool.apply_async(fail, (1,))
        result.wait()
        print(result.ready(), result.successful())
        iterator = pool.imap(fail, [1, 0])
        for _ in range(2):
            try:
                next(iterator)
            except (OutOfStock, ZeroDivisionError) as error:
                print(repr(error), getattr(error, "code", None))
