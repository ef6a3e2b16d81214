"""Tasks use functions with a cache, single dispatch, new types and what modules usually have as globals."""

import functools
import multiprocessing as mp
import struct
import sys
import threading
import typing
import weakref

UserId = typing.NewType("UserId", int)
T = typing.TypeVar("T")
P = typing.ParamSpec("P")
HEADER = struct.Struct("<IH")
local = threading.local()
known = weakref.WeakValueDictionary()


@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.cache
def pack(number: UserId) -> bytes:
    return HEADER.pack(number, 1)


class Shape:
    sides = 4

    @functools.lru_cache
    def area(self, size):
        return self.sides * size

    @staticmethod
    @functools.lru_cache
    def name(size):
        return f"shape {size}"

    @functools.singledispatchmethod
    def scale(self, by):
        return "unknown"

    @scale.register
    def _(self, by: int):
        return self.area(by)


@functools.singledispatch
def describe(value):
    return f"value {value}"


@describe.register(list)
def _(value):
    return [describe(item) for item in value]


def logged(function: typing.Callable[P, T]) -> typing.Callable[P, T]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return [function.__name__, function(*args, **kwargs)]

    return wrapper


@logged
def work(number: UserId):
    shape = known.setdefault(number, Shape())
    if not hasattr(local, "count"):
        local.count = 0
    local.count += 1
    return (
        fibonacci(number),
        pack(number).hex(),
        shape.area(2),
        Shape.name(3),
        shape.scale(3),
        describe([number]),
    )


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        print(*pool.map(work, [UserId(3), UserId(70)]), sep="\n")
        print(pool.map(fibonacci, range(8)), pool.map(describe, [1, ["a"]]), pool.apply(pack, (5,)))
        shape = pool.apply(Shape)
        print(pool.map(shape.area, [1, 2]))
    print(fibonacci.cache_info(), len(known))
