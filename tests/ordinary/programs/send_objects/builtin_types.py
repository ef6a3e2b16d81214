"""Objects of the standard library's types go to a worker and come back equal, with their types."""
# methods: fork forkserver

import collections
import datetime
import decimal
import fractions
import ipaddress
import multiprocessing as mp
import pathlib
import re
import sys
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, UserDict, defaultdict, deque

OBJECTS = [
    (None, True, 10**40, -0.0, 1e300, 2 + 3j, ..., NotImplemented),
    ("text", "é€😀", b"\0bytes", bytearray(b"array"), "", b""),
    (range(0, 10, 3), slice(1, None, 2), frozenset({1, 2}), {3, 4}, (), [], {}),
    (datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4), datetime.timedelta(days=-1, microseconds=5)),
    (datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),),
    (datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),),
    (decimal.Decimal("1.10"), fractions.Fraction(3, 9), uuid.UUID(int=5), ipaddress.ip_address("::1")),
    (
        pathlib.Path("a/b.txt"),
        pathlib.PurePosixPath("/x"),
        re.compile("a+", re.I),
        types.SimpleNamespace(a=1),
    ),
    (Counter("hello"), OrderedDict(b=1, a=2), deque([1, 2], maxlen=3), defaultdict(list, a=[1])),
    (collections.ChainMap({"a": 1}, {"b": 2}), UserDict(x=1), collections.UserList([1]), int, dict, len),
]


def answer(tasks, results):
    for objects in iter(tasks.get, None):
        results.put((objects, [type(value).__name__ for value in objects], repr(objects)))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    for objects in OBJECTS:
        tasks.put(objects)
        back, names, text = results.get()
        print(back == objects, text == repr(objects) == repr(back), *names)
    tasks.put(None)
    worker.join()
