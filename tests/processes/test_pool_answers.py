"""The pool: each task is answered, whatever its function, its arguments, its result and its callbacks do."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from functools import partial
from multiprocessing.pool import MaybeEncodingError

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._pool.naming import name_of
from tests.helpers.children import wait_until
from tests.helpers.failing_pickles import FailsToLoad, FailsToPickle

WAIT = 60.0


class TwoArguments(Exception):
    """Cannot be unpickled: a common mistake."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what} {number}")


class ExitsOnLoad:
    def __reduce__(self):
        return sys.exit, (3,)


def interrupt() -> None:
    raise KeyboardInterrupt


class InterruptsOnLoad:
    def __reduce__(self):
        return interrupt, ()


class BecomesNumber(Exception):
    def __reduce__(self):
        return int, (3,)


class FailsOnRepr(FailsToPickle):
    def __repr__(self):
        raise ValueError("no repr")


def double(value):
    return value * 2


def fail(kind, *arguments):
    raise kind(*arguments)


def make(kind, *_):
    return kind()


def make_third(kind, number):
    return kind() if number == 3 else number


def limited(size: int) -> np.ndarray:
    st.set_limit(50 << 20)
    return np.ones(size, "uint8")


def test_answers_that_cannot_be_unpickled_fail_alone(start_method: str) -> None:
    with mp.get_context(start_method).Pool(2) as pool:
        with pytest.raises(pickle.UnpicklingError, match=r"exception of fail .*: TypeError") as error:
            pool.apply_async(fail, (TwoArguments, "too", 2)).get(WAIT)
        assert "TwoArguments: too 2" in str(error.value.__cause__), "what the task has raised is lost"
        for kind, cause in (
            (FailsToLoad, "RuntimeError: on purpose"),
            (ExitsOnLoad, "SystemExit: 3"),
            (InterruptsOnLoad, "KeyboardInterrupt"),
        ):
            with pytest.raises(pickle.UnpicklingError, match=f"result of make cannot be unpickled: {cause}"):
                pool.apply_async(make, (kind,)).get(WAIT)
        with pytest.raises(pickle.UnpicklingError, match="exception of fail"):
            pool.apply_async(fail, (BecomesNumber,)).get(WAIT)
        for pooled in pool.imap, pool.imap_unordered:
            results = pooled(partial(make_third, FailsToLoad), range(6))
            found = []
            for _ in range(6):
                try:
                    found.append(results.next(WAIT))
                except pickle.UnpicklingError as error:
                    found.append(str(error).partition(" cannot")[0])
            assert sorted(found, key=str) == [0, 1, 2, 4, 5, "the result of partial of make_third"]
        assert pool.map_async(double, range(10)).get(WAIT) == [2 * i for i in range(10)]


@pytest.mark.parametrize("limit", [None, 1])
def test_maps_whose_answers_cannot_be_unpickled_fail(limit) -> None:
    errors: list[BaseException] = []
    told = threading.Event()

    def tell(error):
        errors.append(error)
        told.set()

    with mp.Pool(2, maxtasksperchild=limit) as pool:
        with pytest.raises(pickle.UnpicklingError, match="partial of make_third"):
            pool.map_async(partial(make_third, FailsToLoad), range(6), chunksize=1).get(WAIT)
        result = pool.starmap_async(make, [(FailsToLoad, 1)], callback=fail, error_callback=tell)
        with pytest.raises(pickle.UnpicklingError, match="the result of make"):
            result.get(WAIT)
        assert told.wait(WAIT)
        assert errors == [result._value]
        assert pool.map_async(double, range(10)).get(WAIT) == [2 * i for i in range(10)]


def test_tensors_of_answers_that_cannot_be_unpickled_are_freed() -> None:
    with mp.Pool(1) as pool:
        assert pool.apply_async(double, (1,)).get(WAIT) == 2
        before = st.stats()["blocks"]
        for _ in range(3):
            with pytest.raises(pickle.UnpicklingError):
                pool.apply_async(make_with_tensors).get(WAIT)
        assert pool.apply_async(double, (1,)).get(WAIT) == 2
        assert st.stats()["in_flight"] == 0
        # The manager frees the message, and the tensor after the failure, after the worker's `put`.
        wait_until(lambda: st.stats()["blocks"] == before, what="the blocks of the answers to be freed")


def make_with_tensors():
    return st.ones(1000), np.ones(1_000_000), FailsToLoad(), st.ones(1000)


def test_tasks_that_cannot_be_loaded_fail_alone(start_method: str) -> None:
    with mp.get_context(start_method).Pool(1) as pool:
        pid = pool._pool[0].pid
        with pytest.raises(pickle.UnpicklingError, match=r"task of double .* RuntimeError: on purpose"):
            pool.apply_async(double, (FailsToLoad(),)).get(WAIT)
        results = pool.imap(double, [1, FailsToLoad(), 3])
        assert results.next(WAIT) == 2
        with pytest.raises(pickle.UnpicklingError):
            results.next(WAIT)
        assert results.next(WAIT) == 6
        assert pool._pool[0].pid == pid, "the worker has ended"
        with pytest.raises(mp.WorkerLost, match="exit status 3"):
            pool.apply_async(double, (ExitsOnLoad(),)).get(WAIT)
        assert pool.apply_async(double, (4,)).get(WAIT) == 8


def defined_later(value):
    return value


def test_functions_that_a_worker_does_not_find_are_named(start_method: str, monkeypatch) -> None:
    """As those of a notebook: only the start method "server" sends them."""
    monkeypatch.setattr(defined_later, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "defined_later", defined_later, raising=False)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with mp.get_context("spawn" if start_method == "fork" else start_method).Pool(1) as pool:
        result = pool.apply_async(defined_later, (3,))
        if start_method == "server":
            assert result.get(WAIT) == 3
            return
        with pytest.raises(pickle.UnpicklingError) as error:
            result.get(WAIT)
        for part in ("the task of defined_later", "AttributeError: ", 'The start method "server" needs none'):
            assert part in str(error.value)
        assert pool.apply_async(double, (2,)).get(WAIT) == 4


def test_functions_defined_after_a_forked_pool_are_named(monkeypatch) -> None:
    with mp.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(double, (2,)).get(WAIT) == 4
        monkeypatch.setattr(defined_later, "__module__", "__main__")
        monkeypatch.setattr(sys.modules["__main__"], "defined_later", defined_later, raising=False)
        with pytest.raises(pickle.UnpicklingError, match="forked worker has what the main module contained"):
            pool.apply_async(defined_later, (3,)).get(WAIT)


def test_results_above_the_limit_raise_out_of_shared_memory() -> None:
    with mp.Pool(1) as pool:
        with pytest.raises(st.OutOfSharedMemory, match="limit") as error:
            pool.apply_async(limited, (100 << 20,)).get(WAIT)
        assert "_send" in str(error.value.__cause__)
        results = pool.imap(limited, [1, 100 << 20, 1])
        assert len(results.next(WAIT)) == 1
        with pytest.raises(st.OutOfSharedMemory):
            results.next(WAIT)
        assert len(results.next(WAIT)) == 1
        with pytest.raises(st.OutOfSharedMemory):
            pool.map_async(limited, [1, 100 << 20, 1], chunksize=1).get(WAIT)


def nested() -> list[object]:
    made: list[object] = []
    for _ in range(100_000):
        made = [made]
    return made


def test_results_without_pickle_and_repr_fail() -> None:
    with mp.Pool(1) as pool:
        pid = pool._pool[0].pid
        with pytest.raises(MaybeEncodingError, match=r"FailsOnRepr.*RuntimeError: on purpose"):
            pool.apply_async(make, (FailsOnRepr,)).get(WAIT)
        with pytest.raises(MaybeEncodingError, match="RecursionError"):
            pool.apply_async(nested).get(WAIT)
        assert pool._pool[0].pid == pid


@pytest.mark.parametrize("kind", [KeyError, SystemExit, KeyboardInterrupt])
def test_callbacks_that_raise_are_reported(kind, monkeypatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda of: reported.append(f"{of.exc_type} {of.exc_value}"))
    failing = partial(fail, kind)
    with mp.Pool(2) as pool:
        assert pool.apply_async(double, (2,), callback=failing).get(WAIT) == 4
        assert pool.map_async(double, [1, 2], callback=failing).get(WAIT) == [2, 4]
        assert pool.starmap_async(double, [(1,)], callback=failing).get(WAIT) == [2]
        with pytest.raises(ValueError, match="it is bad"):
            pool.apply_async(fail, (ValueError, "it is bad"), error_callback=failing).get(WAIT)
        with pytest.raises(RuntimeError, match="on purpose"):
            pool.apply_async(double, (FailsToPickle(),), error_callback=failing).get(WAIT)
        assert pool.apply_async(double, (3,)).get(WAIT) == 6
    assert len(reported) == 5
    assert all(kind.__name__ in one for one in reported)


def yield_and_raise(error: BaseException):
    yield 1
    raise error


class ExitsOnPickle:
    def __reduce__(self):
        raise SystemExit


def test_iterables_that_raise_fail_alone() -> None:
    with mp.Pool(1) as pool:
        for pooled in pool.imap, pool.imap_unordered:
            for given, raised, text in (
                (TwoArguments("too", 2), TwoArguments, "too 2"),
                (SystemExit(2), RuntimeError, "iterable of the tasks raised SystemExit: 2"),
                (KeyboardInterrupt(), RuntimeError, "KeyboardInterrupt"),
            ):
                results = pooled(double, yield_and_raise(given))
                assert results.next(WAIT) == 2
                with pytest.raises(raised, match=text):
                    results.next(WAIT)
        with pytest.raises(pickle.PicklingError, match="SystemExit"):
            pool.apply_async(double, (ExitsOnPickle(),)).get(WAIT)
        assert pool.map_async(double, range(4), chunksize=1).get(WAIT) == [0, 2, 4, 6]


class Task:
    """Its `repr` raises, and so do comparisons and `__qualname__`."""

    def __getattr__(self, name: str):
        raise ValueError(name) if name == "__qualname__" else AttributeError(name)

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __call__(self, value):
        return value


def die(*_) -> None:
    os._exit(5)


def test_names_are_short_and_cannot_fail() -> None:
    secret = ["password"] * 100_000
    named = Task()
    named.__qualname__ = "x" * 1_000_000
    assert [name_of(one) for one in (Task(), np.sqrt, abs, named)] == ["Task", "sqrt", "abs", "x" * 200]
    with mp.Pool(1) as pool:
        assert pool.apply_async(Task(), (2,)).get(WAIT) == 2
        assert list(pool.imap(Task(), [1, 2])) == [1, 2]
        for function, name in (
            (partial(die, secret), "partial of die"),
            (partial(partial(die, secret), secret), "partial of die"),
        ):
            with pytest.raises(mp.WorkerLost) as lost:
                pool.apply_async(function).get(WAIT)
            assert lost.value.task == name
            assert len(str(lost.value)) < 200
