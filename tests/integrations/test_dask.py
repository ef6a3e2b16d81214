"""Dask's workers and clients exchange values by handles, and programs notice nothing but the time."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output, importing_tests, run_program, write_program
from tests.helpers.dask_programs import QUIET, SHARDS

START = """
    import numpy as np

    import shmtensor as st
    from tests.helpers.dask_programs import ON, cluster, owner, wait_for_no_blocks
"""

VALUES = """
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second


    def make(name):
        import pandas as pd

        floats = np.arange(500_000, dtype="f8").reshape(1000, 500)
        read_only = floats.copy()
        read_only.flags.writeable = False
        return {
            "C": lambda: floats.copy(),
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
        }[name]()


    NAMES = (
        "C F strided broadcast read-only structured times bool small empty objects matrix masked list dict "
        "bytes bytearray object frame series"
    ).split()


    def arrays(value):
        '''Yield the arrays in a value.'''
        import pandas as pd

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
        '''Return what a program can find out about a value.'''
        import pickle
        import zlib

        parts = [value.first, value.second] if isinstance(value, Pair) else value
        content = zlib.crc32(pickle.dumps(parts, 4))
        kinds = [
            (str(a.dtype), a.shape, a.strides, a.flags.writeable, type(a).__name__) for a in arrays(value)
        ]
        return type(value).__name__, content, kinds


    def write(value):
        for array in arrays(value):
            if array.flags.writeable and array.dtype.kind == "f":
                array += 1
        return describe(value)


    def owners(value):
        return sorted({owner(a) for a in arrays(value) if a.nbytes >= 64 * 1024 and a.dtype != object})
"""


def run_on_and_off(folder, main: str) -> None:
    program = write_program(folder, START + VALUES + main)
    assert_equal_output(program, timeout=60, env={**importing_tests(), **QUIET, **SHARDS})


def run_on(folder, code: str) -> None:
    done = run_program(write_program(folder, START + code), "on", env={**importing_tests(), **QUIET})
    assert done.returncode == 0, done.stderr


def test_values_between_workers(tmp_path) -> None:
    """Equal in type, content, layout and flags; what a worker writes, the other one does not see."""
    run_on_and_off(
        tmp_path,
        """

    if __name__ == "__main__":
        with cluster() as (client, (first, second)):
            made = {name: client.submit(make, name, workers=[first], pure=False) for name in NAMES}
            there = {name: client.submit(describe, value, workers=[second]) for name, value in made.items()}
            for name in NAMES:
                print(name, there[name].result())
            if ON:
                found = {}
                for name in NAMES:
                    there[name] = client.submit(owners, made[name], workers=[second], pure=False)
                    found[name] = there[name].result()
                for name in "C F dict object frame list structured times".split():
                    assert found[name] == ["view"], found
                here = client.submit(owners, made["C"], workers=[first], pure=False).result()
                assert here == ["private"], here
            for name in ("C", "F", "list", "frame", "object"):
                print(name, client.submit(write, made[name], workers=[second], pure=False).result())
                print(name, client.submit(describe, made[name], workers=[first], pure=False).result())
            del made, there
    """,
    )


def test_values_between_client_and_workers(tmp_path) -> None:
    """With and without a direct connection. The scheduler, which is in the client's process, gets bytes."""
    run_on_and_off(
        tmp_path,
        """

    if __name__ == "__main__":
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
            for i in range(3):  # what the client changes between two calls is sent
                array += 1
                future = client.scatter(array, direct=True, hash=False)
                print(client.submit(np.sum, future, pure=False).result())
            copies = client.scatter(array, broadcast=True, direct=True)
            print([client.submit(np.sum, copies, workers=[w], pure=False).result() for w in (first, second)])
            del copies, future
    """,
    )


def test_one_copy_for_all_readers_until_it_is_changed(tmp_path) -> None:
    """Also for a worker that sends on what it has received. What a task has changed is sent as it is then."""
    run_on(
        tmp_path,
        """

    def ones():
        return np.ones(1_000_000)


    def check(array, value):
        assert owner(array) == "view" and (array == value).all()


    def change(array):
        array += 1
        return array


    if __name__ == "__main__":
        with cluster(workers=3) as (client, (first, second, third)):
            made = client.submit(ones, workers=[first])
            for worker in (second, third):
                client.submit(check, made, 1, workers=[worker], pure=False).result()
            assert st.stats()["blocks"] == 1, st.stats()
            changed = client.submit(change, made, workers=[second], pure=False)
            client.submit(check, changed, 2, workers=[third], pure=False).result()
            assert st.stats()["blocks"] == 2, st.stats()
            here = client.submit(change, made, workers=[first], pure=False)
            client.submit(check, here, 2, workers=[second], pure=False).result()
            assert st.stats()["blocks"] == 3, st.stats()
            del made, changed, here
            wait_for_no_blocks()

            there = client.submit(ones, workers=[first], pure=False)
            client.submit(check, there, 1, workers=[second], pure=False).result()
            array = client.gather(there, direct=True)
            assert owner(array) == "view" and st.stats()["blocks"] == 1, st.stats()
            again = client.scatter(array, workers=[third], direct=True, hash=False)
            client.submit(check, again, 1, workers=[third], pure=False).result()
            assert st.stats()["blocks"] == 1, st.stats()
            del there, again, array
    """,
    )


def test_tensors_are_shared(tmp_path) -> None:
    """A tensor, and an array over one, is the same memory in all workers, wherever it is in a message."""
    run_on(
        tmp_path,
        """

    class Holder:
        def __init__(self, tensor):
            self.tensor = tensor


    def tensors(nbytes):
        tensor = st.zeros(nbytes, np.uint8)
        parts = {"array": tensor.numpy()[10:20], "holder": Holder(tensor), "fixed": tensor.as_readonly()}
        return {"tensor": tensor, **parts}


    def write(found):
        assert all(found[name].is_shared() for name in ("tensor", "fixed"))
        assert found["fixed"].readonly
        found["tensor"][0] = 1
        found["array"][0] = 2
        found["holder"].tensor[1] = 3


    def read(found):
        return found["tensor"].numpy()[[0, 1, 10]].tolist(), found["fixed"][1].item()


    if __name__ == "__main__":
        with cluster() as (client, (first, second)):
            for nbytes in (100, 3_000_000):
                made = client.submit(tensors, nbytes, workers=[first])
                client.submit(write, made, workers=[second], pure=False).result()
                assert client.submit(read, made, workers=[first], pure=False).result() == ([1, 3, 2], 3)
                assert read(client.gather(made, direct=True)) == ([1, 3, 2], 3)
                del made
    """,
    )


@pytest.mark.parametrize("kind", ["array", "view", "tensor"])
def test_values_on_disk_contain_no_handle(tmp_path, kind) -> None:
    import numpy as np
    from distributed.spill import SpillBuffer

    import shmtensor as st
    from shmtensor.integrations._borrowing import private_view
    from shmtensor.integrations._copies import copy_of

    st.install("dask")
    try:
        value = np.arange(100_000.0)
        if kind == "view":
            value = np.frombuffer(private_view(copy_of(value.view(np.uint8))))
        if kind == "tensor":
            value = st.asarray(value)
        buffer = SpillBuffer(str(tmp_path), target=1)
        buffer["x"] = value
        assert list(buffer.slow) == ["x"]
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) >= value.nbytes
        del value
        assert st.stats()["blocks"] == 0
        back = buffer["x"]
        assert (np.asarray(back) == np.arange(100_000.0)).all()
    finally:
        st.uninstall("dask")
