"""The exceptions of shmtensor.

Misuse raises the same exceptions as NumPy (`TypeError`, `ValueError`, `IndexError`). A failure in a correct
program raises one of the classes here, or `OSError` if a system call failed.
"""

from __future__ import annotations

__all__ = [
    "BuildError",
    "CorruptDataError",
    "CudaError",
    "CudaUnavailable",
    "NotPublishedError",
    "OutOfSharedMemory",
    "OwnerDied",
    "ProducerGone",
    "SessionError",
    "ShmTensorError",
    "StaleHandleError",
]
__dir__ = __all__.copy


class ShmTensorError(Exception):
    """Base class of all exceptions of shmtensor."""


class StaleHandleError(ShmTensorError):
    """The tensor of a handle was freed, or the handle is damaged, forged or truncated.

    Raised when a message is loaded again after its tensor was freed, after `shmtensor.gc` cancelled it for
    its age, or after its session ended. The bytes of another tensor are never read instead.
    """


class OutOfSharedMemory(ShmTensorError, MemoryError):  # noqa: N818  # as in MemoryError's family
    """Shared memory is exhausted; the text names the limit and the remedy.

    The failed call leaves nothing allocated.
    """


class CorruptDataError(ShmTensorError, ValueError):
    """The memory of a shared list or dict is corrupted.

    Its items cannot be trusted: rebuild the container.
    """


class SessionError(ShmTensorError):
    """The manager of the session cannot be reached or started, or its protocol is incompatible."""


class OwnerDied(ShmTensorError):  # noqa: N818  # a state, not a mistake
    """The process or thread that had a lock ended with it; what the lock protects may be half changed.

    Attributes
    ----------
    pid : int
        The id of the process, as it was at that time.
    seconds : float
        How long ago that was noticed.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(pid, seconds)
        self.pid = pid
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"process {self.pid} ended with the lock, {self.seconds:.3f} s ago: what the lock protects "
            "may be half changed"
        )


class NotPublishedError(ShmTensorError, LookupError):
    """The name is not published, or was not published within the timeout."""


class BuildError(ShmTensorError):
    """The function given to `shmtensor.once` raised in the process that ran it.

    The text includes the traceback. The error stays under the name until `shmtensor.unpublish`.
    """


class CudaError(ShmTensorError):
    """A CUDA driver call failed; the text has the name and number of its error, and the remedy.

    Attributes
    ----------
    code : int or None
        The error number of the driver.
    """

    @property
    def code(self) -> int | None:
        """The error number of the driver, None if there is none."""
        return self.args[1] if len(self.args) > 1 else None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CudaUnavailable(CudaError):  # noqa: N818  # a state, not a mistake
    """CUDA cannot be used: no driver, no GPU, or this is a child forked after CUDA was initialized."""


class ProducerGone(CudaError):  # noqa: N818  # as above
    """The process that exported an array exited before the tensor was received."""
