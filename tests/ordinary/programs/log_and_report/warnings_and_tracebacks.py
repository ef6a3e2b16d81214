"""Warnings as errors, tracebacks and chained exceptions of workers, as a program reports them."""
# methods: fork server

import multiprocessing as mp
import sys
import traceback
import warnings


def careful(number):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(f"number {number}", UserWarning, stacklevel=1)
    return [(warning.category.__name__, str(warning.message)) for warning in caught]


def strict(number):
    warnings.simplefilter("error")
    warnings.warn("deprecated", DeprecationWarning, stacklevel=1)


def outer(number):
    try:
        return inner(number)
    except LookupError as error:
        error.args = (*error.args, "note")
        raise


def inner(number):
    return [0, 1][number]


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(1) as pool:
        print(pool.map(careful, range(2)))
        for function, argument in ((strict, 0), (outer, 5), (outer, -1)):
            try:
                print(pool.apply(function, (argument,)))
            except Exception as error:
                lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
                print(repr(error), [name for name in ("outer", "inner", "strict") if f"in {name}" in lines])
                print("The above exception was the direct cause" in lines, type(error.__cause__).__name__)
