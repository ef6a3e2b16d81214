"""Own managers: a registered class, exposed names, a function that returns an iterator."""
# methods: spawn server

import multiprocessing as mp
import sys
from multiprocessing.managers import BaseManager, BaseProxy


class Foo:
    def f(self):
        return "Foo.f() called"

    def g(self):
        return "Foo.g() called"

    def _h(self):
        return "Foo._h() called"


def squares():
    for i in range(4):
        yield i * i


class GeneratorProxy(BaseProxy):
    _exposed_ = ["__next__"]

    def __iter__(self):
        return self

    def __next__(self):
        return self._callmethod("__next__")


class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self, number):
        self.count += number
        return self.count

    def fail(self):
        raise ValueError("from the manager")


class MyManager(BaseManager):
    pass


MyManager.register("Foo1", Foo)
MyManager.register("Foo2", Foo, exposed=("g", "_h"))
MyManager.register("squares", squares, proxytype=GeneratorProxy)
MyManager.register("Counter", Counter)


def add(counter, numbers):
    for number in numbers:
        counter.add(number)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with MyManager(ctx=mp.get_context()) as manager:
        foo = manager.Foo1()
        print(foo.f(), foo.g(), [name for name in ("f", "_h") if hasattr(foo, name)])
        foo = manager.Foo2()
        print(foo.g(), foo._h(), list(manager.squares()))
        counter = manager.Counter(5)
        processes = [mp.Process(target=add, args=(counter, range(10))) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        print(counter.add(0))
        try:
            counter.fail()
        except ValueError as error:
            print(error)
