"""The standard `multiprocessing` sends handles in a program that only imports shmtensor."""

from __future__ import annotations

import pickle

import pytest

import shmtensor as st
from tests.helpers.children import importing_tests, output, run_python

FIRST = """
    import os, pickle, sys
    from pathlib import Path
    import numpy as np
    import shmtensor as st
    from tests.helpers.children import fork

    def first(way):
        made = eval(way)
        from multiprocessing.reduction import ForkingPickler
        message = ForkingPickler.dumps(made)
        assert len(message) < 1000, (way, len(message))

    array, path = np.zeros(10_000), Path(sys.argv[1])
    for way in sys.argv[2:]:
        assert os.waitpid(fork(lambda: first(way)), 0)[1] == 0, way
    assert "multiprocessing" not in sys.modules
    """

WAYS = [
    *("st.empty(10_000)", "st.zeros(10_000)", "st.ones(10_000)", "st.full(10_000, 7)"),
    *("st.asarray(array)", "st.asarray(array[::2])", "st.asarray([0] * 10_000)"),
    *("st.from_numpy(array)", "st.from_dlpack(array)", "st.frombuffer(bytes(10_000), 'u1')"),
    *("st.Storage(10_000)", "st.Storage.from_file(path)", "st.Storage.from_file(path, shared=False)"),
    "pickle.loads(path.read_bytes())",
    *("st.SharedList([bytes(10_000)])", "st.SharedDict({'key': bytes(10_000)})"),
    "st.once('a name', lambda: st.zeros(10_000))",
]


@pytest.mark.parametrize("kind", ["tensor", "storage"])
def test_first_tensor_registers_the_reducers(tmp_path, kind) -> None:
    tensor = st.zeros(10_000)
    path = tmp_path / "by value"
    path.write_bytes(pickle.dumps(tensor if kind == "tensor" else tensor.storage()))
    output(run_python(FIRST, arguments=(str(path), *WAYS), env=importing_tests()))


TOGETHER = """
    import os
    import shmtensor as st
    from tests.helpers.children import fork
    from tests.helpers.threads import run_together

    def first():
        tensor = st.zeros(10_000)
        from multiprocessing.reduction import ForkingPickler
        assert len(ForkingPickler.dumps(tensor)) < 1000

    for _ in range(20):
        assert os.waitpid(fork(lambda: run_together(*[first] * 8)), 0)[1] == 0
    """


def test_concurrent_first_tensors_are_sent_as_handles() -> None:
    output(run_python(TOGETHER, env=importing_tests()))


def test_later_tensors_run_no_registration() -> None:
    done = run_python("""
    import builtins
    import shmtensor as st

    imported, standard = [], builtins.__import__
    def note(name, *args, **keywords):
        imported.append(name)
        return standard(name, *args, **keywords)

    builtins.__import__ = note
    first = st.zeros(3)
    assert "shmtensor.reducers" in imported
    imported.clear()
    more = [st.zeros(3), st.asarray([1.0]), st.frombuffer(bytearray(8))]
    assert "shmtensor.reducers" not in imported
    """)
    assert done.returncode == 0, done


FAILING = """
    import sys
    import numpy as np
    import pytest
    import shmtensor as st
    from multiprocessing.reduction import ForkingPickler

    makers = [
        lambda: st.zeros(1000),
        lambda: st.asarray(np.ones(1000)),
        lambda: st.frombuffer(bytearray(8)),
        lambda: st.Storage(8),
    ]
    sys.modules["shmtensor.reducers"] = None
    for make in makers:
        with pytest.raises(ImportError, match="shmtensor.reducers"):
            make()
    assert st.stats()["blocks"] == 0, st.stats()
    del sys.modules["shmtensor.reducers"]
    tensor = st.zeros(1000)
    assert len(ForkingPickler.dumps(tensor)) < 1000
    assert st.stats()["blocks"] == 1, st.stats()
    """


def test_failed_import_of_reducers_creates_nothing_and_is_retried() -> None:
    output(run_python(FAILING))
