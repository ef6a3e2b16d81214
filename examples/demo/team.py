"""The loader and its workers, for one way to send arrays."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import numpy as np
from ways import Pickle
from worker import means, work

import shmtensor as st

TIMEOUT = 50.0  # seconds without an answer
AHEAD = 2  # batches for each worker that are under way


class Team(AbstractContextManager):
    """Workers that share a queue of batches, each with a pipe for its answers."""

    def __init__(self, way: type[Pickle], table: np.ndarray, batches: list[np.ndarray], workers: int) -> None:
        self.way, self.batches = way(table), batches
        self.expected = [means(table[rows]) for rows in batches]
        self.whole = means(table)
        self.correct = True
        self.may_end = False  # a worker
        self.processes: dict[Connection, Any] = {}
        for _ in range(workers):
            mine, theirs = Pipe()
            process = way.context.Process(
                target=work, args=(self.way.tasks, self.way.whole(), theirs), daemon=True
            )
            process.start()
            theirs.close()  # so that the pipe ends with the worker
            self.processes[mine] = process
        self.workers = list(self.processes.values())

    def wait_until_ready(self) -> None:
        """Wait until each worker has read the whole table."""
        ready = 0
        while ready < len(self.workers):
            for _, _, answer in self._answers():
                ready += 1
                self.correct &= answer == self.whole

    def _answers(self) -> Iterator[tuple[Connection, str, Any]]:
        """Wait for answers; close the pipes of workers that have ended."""
        found = wait(list(self.processes), TIMEOUT)
        if not found:
            msg = f"{self.way.name}: no worker has answered for {TIMEOUT:.0f} s"
            raise TimeoutError(msg)
        for connection in found:
            try:
                kind, number, answer = connection.recv()
            except (EOFError, ConnectionResetError):
                connection.close()
                process = self.processes.pop(connection)
                if not self.may_end:
                    process.join(TIMEOUT)
                    msg = f"{self.way.name}: {process.name} ended early, exit status {process.exitcode}"
                    raise RuntimeError(msg) from None
                continue
            if kind == "done":
                self.way.finished(number)
                self.correct &= answer == self.expected[number % len(self.batches)]
            yield connection, kind, answer

    def stream(self, seconds: float, advance: Callable[[float], object]) -> float:
        """Send fresh batches for some seconds, and return how many were answered in a second."""
        sent = answered = 0
        begin, passed = time.perf_counter(), 0.0
        while passed < seconds or answered < sent:
            while passed < seconds and sent - answered < AHEAD * len(self.workers):
                self._put(sent)
                sent += 1
            answered += sum(kind == "done" for _, kind, _ in self._answers())
            passed = time.perf_counter() - begin
            advance(passed)
        return answered / passed

    def kill_one(self, count: int) -> int:
        """Kill the worker that has the middle batch of many, and return how many were answered in the end."""
        numbers = iter(range(count))
        under_way = answered = 0
        victim, ended, self.may_end = None, False, True
        while self.processes:
            for number in itertools.islice(numbers, AHEAD * len(self.workers) - under_way):
                self._put(number, pause=number == count // 2)
                under_way += 1
            if not ended and answered + under_way == count:
                self.way.end(len(self.workers))
                ended = True
            for connection, kind, _ in self._answers():
                if kind == "done":
                    under_way -= 1
                    answered += 1
                elif victim is None:
                    victim = self.processes[connection]
                    victim.kill()
                else:
                    connection.send(None)  # another worker has received the batch: it may continue
        return answered

    def _put(self, number: int, *, pause: bool = False) -> None:
        self.way.put(number, self.batches[number % len(self.batches)], pause=pause)

    def memory(self) -> dict[str, st.memory.ProcessMemory]:
        """Measure the loader and each worker."""
        workers = {
            f"worker {i}": st.memory.process_memory(one.pid) for i, one in enumerate(self.workers, start=1)
        }
        return {"loader": st.memory.process_memory(), **workers}

    def __exit__(self, *_: object) -> None:
        """End all workers and remove what was shared."""
        for process in self.workers:
            if self.processes:  # after a failure; otherwise they end by themselves
                process.kill()
            process.join(TIMEOUT)
            process.close()
        self.way.close()
