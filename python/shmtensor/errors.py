"""The exceptions of shmtensor.

Misuse raises what NumPy would raise (`TypeError`, `ValueError`, `IndexError`). Everything that can go
wrong although a program is right raises one of the classes here, or `OSError` where the operating
system said no.
"""

from __future__ import annotations

__all__ = [
    "BuildError",
    "CorruptDataError",
    "CudaError",
    "CudaUnavailable",
    "NotPublishedError",
    "OutOfSharedMemory",
    "ProducerGone",
    "SessionError",
    "ShmTensorError",
    "StaleHandleError",
]


def __dir__() -> list[str]:
    return __all__


class ShmTensorError(Exception):
    """The base of all exceptions of shmtensor."""


class StaleHandleError(ShmTensorError):
    """A handle names a tensor that is gone, or was damaged, forged or truncated.

    Raised when a message is loaded: for the second time after its tensor was freed, after
    `shmtensor.gc` forgot it for its age, or after its session ended. No other tensor's bytes are read.
    """


class OutOfSharedMemory(ShmTensorError, MemoryError):  # noqa: N818  # as in MemoryError's family
    """Shared memory is exhausted; the text names the limit that was hit and the remedy.

    Nothing stays allocated by the call that failed.
    """


class CorruptDataError(ShmTensorError, ValueError):
    """The memory of a shared list or dict was damaged, or holds something else.

    Its items cannot be trusted any more: build it anew.
    """


class SessionError(ShmTensorError):
    """The session's manager cannot be reached, started or understood."""


class NotPublishedError(ShmTensorError, LookupError):
    """Nobody published that name, or not in time."""


class BuildError(ShmTensorError):
    """The function given to `shmtensor.once` raised in the process that ran it.

    The text has its traceback. It stays under the name until `shmtensor.unpublish`.
    """


class CudaError(ShmTensorError):
    """The CUDA driver refused; the text has its error's name and number and what to do.

    Attributes
    ----------
    code : int or None
        The driver's number.
    """

    @property
    def code(self) -> int | None:
        """The driver's number for the error."""
        return self.args[1] if len(self.args) > 1 else None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CudaUnavailable(CudaError):  # noqa: N818  # a state, not a mistake
    """There is no CUDA in this process: no driver, no GPU, or a child that was forked after CUDA started."""


class ProducerGone(CudaError):  # noqa: N818  # as above
    """The process that owns an array which was shared in place has ended before it was received."""
