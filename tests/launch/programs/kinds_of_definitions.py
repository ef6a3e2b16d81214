"""Definitions of the main program that are sent by value; `test_server_by_value.py` runs it."""

import dataclasses
import enum
import functools

import shmtensor.multiprocessing as mp

context = mp.get_context("server")


@dataclasses.dataclass
class Point:
    x: int

    def doubled(self):
        return Point(self.x * 2)

    @classmethod
    def origin(cls):
        return cls(0)

    @staticmethod
    def helper():
        return SCALE


class Child(Point):
    def doubled(self):
        return super().doubled()


class Meta(type):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = type.__hash__


class WithMeta(metaclass=Meta): ...


class Colour(enum.Enum):
    RED = 1


class Failure(Exception): ...


SCALE = 3


def scaled(point):
    return Point(point.x * SCALE)


def recursive(n):
    return 1 if n == 0 else n * recursive(n - 1)


def make_closure(k):
    def closure(x):
        return x + k

    return closure


def make_class():
    class Local:
        pass

    return Local


Local = make_class()


def fail():
    raise Failure("mine")


def give(thing):
    return thing


with context.Pool(2) as pool:
    assert type(pool.apply(scaled, (Point(2),))) is Point
    assert pool.apply(scaled, (Point(2),)) == Point(6)
    assert type(pool.apply(Child(4).doubled)) is Point
    assert type(pool.apply(Point.origin)) is Point
    assert pool.apply(Point.helper) == 3
    assert pool.apply(give, (Colour.RED,)) is Colour.RED
    assert pool.apply(give, (Point,)) is Point
    assert pool.apply(give, (WithMeta,)) is WithMeta
    assert type(pool.apply(give, (Local(),))) is Local
    assert pool.apply(give, (scaled,)) is scaled
    assert pool.apply(recursive, (5,)) == 120
    assert pool.map(make_closure(10), range(3)) == [10, 11, 12]
    assert pool.map(lambda x: x * SCALE, range(3)) == [0, 3, 6]
    assert pool.apply(functools.partial(recursive, 3)) == 6
    returned = pool.apply(make_closure, (7,))
    assert returned(1) == 8
    try:
        pool.apply(fail)
    except Failure as error:
        assert error.args == ("mine",)
    else:
        raise SystemExit("no failure")
assert Point.helper.__globals__ is globals(), "no object of the caller was replaced"
assert Point(5).doubled() == Point(10)
print("body")
