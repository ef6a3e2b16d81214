"""Classes that define how they are pickled: `__reduce__`, `__getstate__`, `__getnewargs__`, `copyreg`."""
# methods: fork server

import copyreg
import multiprocessing as mp
import sys
import threading


class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius

    def __reduce__(self):
        return Temperature, (self.celsius,), {"source": "reduced"}


class Cache:
    def __init__(self, name):
        self.name, self.lock, self.entries = name, threading.Lock(), {"a": 1}

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["lock"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = threading.Lock()


class Interval(tuple):
    def __new__(cls, low, high):
        return super().__new__(cls, (low, high))

    def __getnewargs__(self):
        return tuple(self)


class Money:
    def __init__(self, amount, currency):
        self.amount, self.currency = amount, currency


class Registry(dict):
    def __reduce__(self):
        return Registry, (), None, None, iter(self.items())


def reduce_money(money):
    return Money, (money.amount, money.currency.upper())


class Both:
    def __reduce_ex__(self, protocol):
        return type(self), ()

    def __reduce__(self):
        raise NotImplementedError


def describe(thing):
    extra = hasattr(thing, "lock")
    state = sorted(
        (key, str(value)) for key, value in getattr(thing, "__dict__", {}).items() if key != "lock"
    )
    return type(thing).__name__, state, extra, [*thing] if isinstance(thing, (tuple, dict)) else None


def answer(tasks, results):
    for thing in iter(tasks.get, None):
        results.put((describe(thing), thing))


if __name__ == "__main__":
    copyreg.pickle(Money, reduce_money)
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    registry = Registry(a=1, b=2)
    for thing in (Temperature(20), Cache("c"), Interval(1, 5), Money(3, "eur"), registry, Both()):
        tasks.put(thing)
        there, back = results.get()
        print(there, describe(back) == there)
    tasks.put(None)
    worker.join()
