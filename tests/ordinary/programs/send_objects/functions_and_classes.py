"""Functions, methods, classes and types as objects: a worker calls what it gets."""
# methods: spawn server

import functools
import math
import multiprocessing as mp
import operator
import sys
from collections import Counter


class Account:
    interest = 2

    def __init__(self, balance=0):
        self.balance = balance

    def pay_in(self, amount):
        self.balance += amount
        return self

    @property
    def rich(self):
        return self.balance > 100

    @classmethod
    def opened(cls, amount):
        return cls(amount)

    @staticmethod
    def currency():
        return "EUR"

    def __eq__(self, other):
        return self.balance == other.balance

    __hash__ = None

    class Report:
        def __init__(self, text):
            self.text = text


@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function.__name__, function(*args)

    return wrapper


@logged
def double(x):
    return 2 * x


def answer(calls, results):
    for function, args in iter(calls.get, None):
        results.put(function(*args))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    calls, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(calls, results))
    worker.start()
    account = Account(5)
    for function, *args in [
        (math.hypot, 3, 4),
        (Account, 7),
        (account.pay_in, 100),
        (Account.opened, 8),
        (Account.currency,),
        (Account.Report, "nested"),
        (functools.partial(pow, 2), 5),
        (functools.partial(account.pay_in, amount=1),),
        (operator.attrgetter("balance"), account),
        (operator.methodcaller("upper"), "x"),
        (fibonacci, 50),
        (double, 4),
        (sorted, [3, 1, 2]),
        (Counter, "abca"),
        (isinstance, account, Account),
        (type, account),
        (str.join, "-", ["a", "b"]),
        ({}.get, "key", "default"),
    ]:
        calls.put((function, args))
        result = results.get()
        if isinstance(result, Account):
            result = "account", result.balance, result.rich, type(result) is Account
        if isinstance(result, Account.Report):
            result = "report", result.text
        if isinstance(result, type):
            result = result is Account
        print(result)
    print(account.balance)
    calls.put(None)
    worker.join()
