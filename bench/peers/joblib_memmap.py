"""joblib: an array is written once to a file in /dev/shm, which the worker maps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed

from bench.options import Options
from bench.peers import Consumer, Peer


def _take(_message: Any, options: Options) -> None:
    options.place(1)


class Worker:
    """One task for each message. joblib uses other processes only for two or more workers."""

    def __init__(self, parallel: Any, options: Options) -> None:
        self._parallel = parallel
        self._options = options

    def hand_over(self, message: Any) -> object:
        return self._parallel([delayed(_take)(message, self._options)])


class Joblib(Peer):
    """Private arrays, which are memory-mapped for the worker from one byte on."""

    @contextmanager
    def consumer(self, options: Options, _serve: object = None) -> Iterator[Consumer]:
        with Parallel(n_jobs=2, max_nbytes=1) as parallel:
            yield Worker(parallel, options)


PEER = Joblib
