"""Instances of all kinds of classes of the main program go to a worker and back."""

import abc
import collections
import dataclasses
import enum
import functools
import multiprocessing as mp
import sys
import typing

T = typing.TypeVar("T")


class Slots:
    __slots__ = ("a", "b")


class OneSlot:
    __slots__ = "a"


class Hidden:
    __slots__ = ("__hidden", "a")

    def __init__(self):
        self.__hidden = "hidden"

    def reveal(self):
        return self.__hidden


class Weak:
    __slots__ = {"__weakref__": "", "a": "with a docstring"}


class Open:
    __slots__ = ("__dict__", "a")

    @functools.cached_property
    def a_twice(self):
        return 2 * self.a


class Empty:
    __slots__ = ()


class Child(Empty):
    __slots__ = ("a",)


class GrandChild(Slots):
    pass


class More(Slots):
    __slots__ = ("c",)

    @property
    def a_twice(self):
        return 2 * self.a


class Abstract(abc.ABC):
    __slots__ = ("a",)

    @abc.abstractmethod
    def name(self): ...


class Concrete(Abstract):
    __slots__ = ()

    def name(self):
        return "concrete"


class Box(typing.Generic[T]):
    __slots__ = ("a",)


class Failure(Exception):
    __slots__ = ("a",)


class Pair(typing.NamedTuple):
    a: int
    b: int = 2


class Point(collections.namedtuple("Point", "a b")):
    __slots__ = ()


class Color(enum.Enum):
    red = 1
    blue = 2


class Flags(enum.IntFlag):
    one = 1
    two = 2


@dataclasses.dataclass(slots=True)
class Data:
    a: int
    b: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, frozen=True)
class Frozen:
    a: int


@dataclasses.dataclass(slots=True)
class MoreData(Data):
    c: str = "c"


@dataclasses.dataclass
class OpenData(Data):
    d: str = "d"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


def with_a(kind, *arguments):
    made = kind(*arguments)
    made.a = 3
    return made


def describe(thing):
    names = ("a", "b", "c", "d", "a_twice", "reveal", "name")
    found = [(name, getattr(thing, name)) for name in names if hasattr(thing, name)]
    return type(thing).__name__, [(name, value() if callable(value) else value) for name, value in found]


def back(thing):
    return thing


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    kinds = [Slots, OneSlot, Hidden, Weak, Open, Child, GrandChild, More, Concrete, Box, Failure]
    things = [with_a(kind) for kind in kinds]
    things[kinds.index(Open)].b = "in its dict"
    things += [Pair(1), Point(1, 2), Color.blue, Flags.one | Flags.two, Data(1, [2]), Frozen(1)]
    things += [MoreData(1, [2], "3"), OpenData(1), Text("text"), Number(4)]
    tasks = mp.Queue()
    with mp.Pool(1) as pool:
        for thing in things:
            print(pool.apply(describe, (thing,)))
            there = pool.apply(back, (thing,))
            print(type(there) is type(thing), describe(there) == describe(thing), hasattr(there, "__dict__"))
            tasks.put(thing)
            print(type(tasks.get()) is type(thing))
