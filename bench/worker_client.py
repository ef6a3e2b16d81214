"""The driver's end of a process that measures one peer; see `bench.worker` for the other end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.model import Case, Measure
from bench.options import Options

ROOT = Path(__file__).parent.parent
_END = 20.0  # seconds that a worker may take to exit


class WorkerError(Exception):
    """A worker failed, or did not answer in time; the text is the worker's."""


class WorkerClient:
    """A new interpreter in its own process session that measures on request."""

    def __init__(self, case: Case, peer: str, options: Options) -> None:
        self._timeout = case.timeout
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", case.name, peer, options.to_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        self.versions: dict[str, str] = self._answer()["versions"]

    def measure(self, variant: str) -> Measure:
        """Measure once. Raises WorkerError."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._process.stdin.write(json.dumps(variant).encode() + b"\n")
            self._process.stdin.flush()
        return self._answer()["measure"]

    def _answer(self) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], self._timeout)
        if not ready:
            raise WorkerError(f"no answer within {self._timeout:g} s")
        line = out.readline()
        if not line:
            raise WorkerError("the worker exited; its traceback is on standard error")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        """Stop the worker; kill it and its children if it does not exit in time."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # This process created the group, and its number is not reused before it is empty.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


@contextmanager
def running_worker(case: Case, peer: str, options: Options) -> Iterator[WorkerClient]:
    worker = WorkerClient(case, peer, options)
    try:
        yield worker
    finally:
        worker.close()
