"""Containers keep what belongs to them: default factories, maximum lengths, orders, named fields."""
# methods: fork server

import collections
import multiprocessing as mp
import sys
import typing
from dataclasses import dataclass, field, replace

Point = collections.namedtuple("Point", ["x", "y"], defaults=[0])


class Employee(typing.NamedTuple):
    name: str
    skills: list = []
    level: int = 1


class Settings(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class History(list):
    limit = 5


@dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0
    tags: tuple = field(default=(), compare=False)


@dataclass
class Tree:
    value: int
    children: list = field(default_factory=list)
    parent: "Tree | None" = field(default=None, repr=False, compare=False)


def change(objects):
    counts, recent, words = objects["counts"], objects["recent"], objects["words"]
    counts["new"] += 1
    recent.append(4)
    words.move_to_end("a")
    objects["settings"].update(color="red")
    objects["history"].extra = "kept"
    objects["version"] = replace(objects["version"], minor=7)
    tree = objects["tree"]
    tree.children.append(Tree(5, parent=tree))
    return objects


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tree = Tree(1)
    tree.children.append(Tree(2, parent=tree))
    objects = {
        "counts": collections.defaultdict(int, a=1),
        "recent": collections.deque([1, 2, 3], maxlen=3),
        "words": collections.OrderedDict.fromkeys("abc"),
        "settings": Settings(size=3),
        "history": History([1]),
        "version": Version(1, tags=("x",)),
        "tree": tree,
        "pair": (Point(1), Employee("Ann", ["python"])),
    }
    with mp.Pool(1) as pool:
        back = pool.apply(change, (objects,))
    for name, value in back.items():
        print(name, value)
    print(back["counts"]["missing"], back["recent"].maxlen, back["settings"].color, back["history"].extra)
    print(back["tree"].children[0].parent is back["tree"], objects["tree"] == Tree(1, [Tree(2)]))
    print(back["version"] > Version(1), hash(back["pair"][0]) == hash(Point(1)), back["history"].limit)
