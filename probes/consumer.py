"""The other process of a measurement; a wait for its answer notices its death."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Consumer:
    """A process with a queue to it and a pipe back."""

    def __init__(self, context: Any, target: Callable[[Any, Any], None]) -> None:
        self.inbox = context.SimpleQueue()
        self.answers, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=target, args=(self.inbox, theirs), daemon=True)
        self.process.start()
        theirs.close()  # closes the last other end: the process's death ends the pipe

    def put(self, item: Any) -> None:
        self.inbox.put(item)

    def answer(self) -> bytes:
        """Return the next answer as bytes; raise if the process has ended."""
        try:
            return bytes(self.answers.recv_bytes())
        except EOFError:
            self.process.join(5)
            text = f"the consumer ended without an answer, exit code {self.process.exitcode}"
            raise RuntimeError(text) from None


@contextmanager
def consumer(context: Any, target: Callable[[Any, Any], None]) -> Iterator[Consumer]:
    """Start a consumer; end it with the context."""
    started = Consumer(context, target)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.join(5)
        started.answers.close()
        started.inbox.close()
