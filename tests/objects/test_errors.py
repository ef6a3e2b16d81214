"""The exceptions: their base classes, and pickling between processes."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys

import pytest

import shmtensor as st
from shmtensor import _core, errors, reducers
from tests.helpers.children import output, run_python

BUILT_IN = {  # the built-in base class of an error
    "CorruptDataError": ValueError,
    "NotPublishedError": LookupError,
    "OutOfSharedMemory": MemoryError,
}
FAMILY = [getattr(errors, name) for name in errors.__all__]


def test_all_errors_are_public_members_of_errors_module() -> None:
    assert st.errors is errors
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert defined == set(errors.__all__) == set(dir(errors))
    for kind in FAMILY:
        assert getattr(errors, kind.__name__) is getattr(st, kind.__name__) is kind


def test_errors_derive_from_shmtensor_and_builtin_bases() -> None:
    assert all(issubclass(kind, st.ShmTensorError) for kind in FAMILY)
    assert st.ShmTensorError.__base__ is Exception
    for kind in FAMILY:
        built_in = [base for base in kind.__mro__ if base.__module__ == "builtins"]
        assert built_in[0] is BUILT_IN.get(kind.__name__, Exception)


@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_errors_can_be_pickled(kind, protocol) -> None:
    error = pickle.loads(pickle.dumps(kind("what happened", 5), protocol))
    assert (type(error), error.args) == (kind, ("what happened", 5))


def test_core_errors_carry_only_their_text() -> None:
    with pytest.raises(st.StaleHandleError) as caught:
        reducers.rebuild_storage(b"no handle")
    assert len(caught.value.args) == 1
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_system_errors_are_caught_by_builtin_classes() -> None:
    """Regression: Python 3.10 has only OSError, so a child that ended at its start stopped its parent."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    reader, writer = os.pipe()
    caught = None
    try:
        _core.bind_parent_death_signal(reader, child.pid)
    except ProcessLookupError as error:  # pytest.raises would read its type
        caught = error
    finally:
        os.close(reader)
        os.close(writer)
    assert caught is not None
    assert caught.errno == errno.ESRCH
    assert "No such process" in str(caught)


def test_object_that_is_initialized_meanwhile_is_kept() -> None:
    """Regression: two calls of `__init__` for one object, as of two threads, ended the process."""
    code = """
        from shmtensor import _core

        class Number:
            def __index__(self):
                lock.__init__(7)
                return 8

        lock = _core.NameLock.__new__(_core.NameLock)
        lock.__init__(Number())
    """
    output(run_python(code))
