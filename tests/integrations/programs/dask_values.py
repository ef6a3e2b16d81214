"""Workers and clients exchange values and write into them.

Arguments: the name of a function, "on" with the integration or "off" without.
"""

import pickle
import sys
import zlib

import numpy as np
import pandas as pd

from tests.helpers.dask_programs import ON, cluster, owner


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


def makers():
    floats = np.arange(500_000, dtype="f8").reshape(1000, 500)
    read_only = floats.copy()
    read_only.flags.writeable = False
    return {
        "C": floats.copy,
        "F": lambda: np.asfortranarray(floats),
        "strided": lambda: floats[::2, ::3],
        "broadcast": lambda: np.broadcast_to(np.arange(100_000.0), (3, 100_000)),
        "read-only": lambda: read_only,
        "structured": lambda: np.zeros(100_000, [("a", "i4"), ("b", "f8")]),
        "times": lambda: np.arange(100_000).astype("M8[ns]"),
        "bool": lambda: floats % 3 == 0,
        "small": lambda: np.arange(10),
        "empty": lambda: np.zeros((0, 5)),
        "objects": lambda: np.array(["a", None] * 50_000, dtype=object),
        "matrix": lambda: np.matrix(floats),
        "masked": lambda: np.ma.masked_greater(floats, 1000),
        "list": lambda: [floats + i for i in range(3)],
        "dict": lambda: {"x": floats + 1, "y": {"z": floats[:500].copy()}},
        "bytes": lambda: bytes(1_000_000),
        "bytearray": lambda: bytearray(b"ab" * 500_000),
        "object": lambda: Pair(floats * 2, (floats.copy(), "text")),
        "frame": lambda: pd.DataFrame({"a": np.arange(200_000), "b": 0.5, "s": ["text"] * 200_000}),
        "series": lambda: pd.Series(np.arange(200_000.0), name="n").astype("category"),
    }


def make(name):
    return makers()[name]()


def arrays(value):
    """Yield the arrays in a value."""
    if isinstance(value, Pair):
        value = [value.first, value.second]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, pd.Series):
        value = value.cat.codes.to_numpy()
    if isinstance(value, pd.DataFrame):
        value = [value["a"].to_numpy(), value["b"].to_numpy()]
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from arrays(part)


def describe(value):
    """Return what a program can find out about a value."""
    parts = [value.first, value.second] if isinstance(value, Pair) else value
    content = zlib.crc32(pickle.dumps(parts, 4))
    kinds = [(str(a.dtype), a.shape, a.strides, a.flags.writeable, type(a).__name__) for a in arrays(value)]
    return type(value).__name__, content, kinds


def write(value):
    for array in arrays(value):
        if array.flags.writeable and array.dtype.kind == "f":
            array += 1
    return describe(value)


def owners(value):
    return sorted({owner(a) for a in arrays(value) if a.nbytes >= 64 * 1024 and a.dtype != object})


def among_workers():
    with cluster() as (client, (first, second)):
        made = {name: client.submit(make, name, workers=[first], pure=False) for name in makers()}
        there = {name: client.submit(describe, value, workers=[second]) for name, value in made.items()}
        for name in made:
            print(name, there[name].result())
        if ON:
            found = {}
            for name in made:
                there[name] = client.submit(owners, made[name], workers=[second], pure=False)
                found[name] = there[name].result()
            for name in ("C", "F", "dict", "object", "frame", "list", "structured", "times"):
                assert found[name] == ["view"], found
            here = client.submit(owners, made["C"], workers=[first], pure=False).result()
            assert here == ["private"], here
        for name in ("C", "F", "list", "frame", "object"):
            print(name, client.submit(write, made[name], workers=[second], pure=False).result())
            print(name, client.submit(describe, made[name], workers=[first], pure=False).result())
        del made, there


def with_the_client():
    with cluster() as (client, (first, second)):
        for direct in (True, False):
            for name in ("C", "read-only", "dict", "frame"):
                value = make(name)
                future = client.scatter(value, workers=[first], direct=direct, hash=False)
                print(name, client.submit(write, future, workers=[first], pure=False).result())
                print(name, describe(value))
                back = client.gather(future, direct=direct)
                there = client.submit(describe, future, workers=[first], pure=False)
                print(name, write(back), there.result())
                if ON:
                    expected = ["view"] if direct else ["private"]
                    assert owners(back) == expected, (direct, name, owners(back))
                    found = client.submit(owners, future, workers=[first], pure=False).result()
                    assert found == expected, (direct, name, found)
                del future, back, there
        array = np.zeros(100_000)
        for _ in range(3):  # what the client changes between two calls is sent
            array += 1
            future = client.scatter(array, direct=True, hash=False)
            print(client.submit(np.sum, future, pure=False).result())
        copies = client.scatter(array, broadcast=True, direct=True)
        print([client.submit(np.sum, copies, workers=[w], pure=False).result() for w in (first, second)])
        del copies, future


if __name__ == "__main__":
    globals()[sys.argv[1]]()
