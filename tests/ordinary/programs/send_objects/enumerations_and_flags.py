"""Members of enumerations arrive as the same members, also as keys, in sets and in dataclasses."""
# methods: fork server

import enum
import multiprocessing as mp
import sys
from dataclasses import dataclass


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"
    CRIMSON = "r"

    @classmethod
    def default(cls):
        return cls.GREEN

    @property
    def pretty(self):
        return self.name.title()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    ALL = READ | WRITE


class Planet(enum.Enum):
    EARTH = (5.97, 6.37)
    MARS = (0.64, 3.39)

    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius


class Command(str, enum.Enum):
    STOP = "stop"


@dataclass
class Event:
    kind: Color
    level: Level = Level.LOW


def answer(tasks, results):
    while (task := tasks.get()) is not Command.STOP:
        if isinstance(task, Event):
            results.put(
                (task.kind is Color.RED, task.kind.pretty, task.level > Level.LOW, Event(Color.default()))
            )
        elif isinstance(task, dict):
            results.put({value: key for key, value in task.items()})
        else:
            results.put(task)
    results.put(Command("stop"))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    for task in (Color.RED, Color.CRIMSON, Level.HIGH, Access.READ, Access.ALL, Planet.MARS):
        tasks.put(task)
        back = results.get()
        print(back is task, back, hash(back) == hash(task))
    tasks.put(Event(Color.CRIMSON, Level.HIGH))
    *found, event = results.get()
    print(found, event, event.kind is Color.GREEN, event == Event(Color.GREEN))
    tasks.put({Color.RED: Access.READ | Access.WRITE, Level.LOW: Planet.EARTH})
    print({str(key): value for key, value in results.get().items()}, Planet.EARTH.mass)
    tasks.put([{Color.RED, Color.CRIMSON}])
    print(results.get() == [{Color.RED}])
    tasks.put(Command.STOP)
    print(results.get() is Command.STOP, worker.join(), worker.exitcode)
