"""Environment, CPUs and output prefix of each worker."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from shmtensor._values import check_integer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Environment = Mapping[str, "str | None"]
Environments = Environment | Sequence[Environment] | Callable[[int], Environment] | None
Cpus = int | Collection[int]
Affinity = set[int] | frozenset[int] | Sequence[Cpus] | Callable[[int], Cpus] | None


class Settings:
    """The settings of one worker, applied before its function is called."""

    def __init__(
        self, environment: Environment | None, cpus: frozenset[int] | None, prefix: str | None
    ) -> None:
        self.environment = environment
        self.cpus = cpus
        self.prefix = prefix

    @property
    def before_start(self) -> bool:
        """Return True if something must be set before a new interpreter starts."""
        return self.environment is not None or self.cpus is not None

    def change(self, environment: MutableMapping[str, str]) -> None:
        """Set the variables, and remove those that shall not exist."""
        for name, value in (self.environment or {}).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value

    def apply(self) -> None:
        """Apply them, in the worker."""
        self.change(os.environ)
        if self.cpus is not None:
            os.sched_setaffinity(0, self.cpus)
        if self.prefix is not None:
            _prefix_output(self.prefix)


def settings_by_rank(
    nprocs: int, env: Environments, affinity: Affinity, prefix_output: bool | str
) -> list[Settings]:
    """Return the settings of every rank; they are checked before any worker is started."""
    environments = _of_each_rank("env", env, nprocs, Mapping)
    processors = _of_each_rank("affinity", affinity, nprocs, (set, frozenset))
    return [
        Settings(_environment(environments[rank]), _cpus(processors[rank]), _prefix(prefix_output, rank))
        for rank in range(nprocs)
    ]


def _of_each_rank(name: str, given: Any, nprocs: int, one_for_all: Any) -> list[Any]:
    if given is None or isinstance(given, one_for_all):
        return [given] * nprocs
    if callable(given):
        return [given(rank) for rank in range(nprocs)]
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != nprocs:
            msg = f"{name} has {len(given)} entries for {nprocs} workers: give one for each rank"
            raise ValueError(msg)
        return list(given)
    msg = (
        f"{name} must be one for all workers, a sequence with one for each, or a function of the rank; "
        f"got {given!r}"
    )
    raise TypeError(msg)


def _environment(given: Any) -> dict[str, str | None] | None:
    if given is None:
        return None
    for name, value in given.items():
        if not isinstance(name, str) or not (value is None or isinstance(value, str)):
            msg = f"env must map names to strings, or to None to remove a name; got {name!r}: {value!r}"
            raise TypeError(msg)
    return dict(given)


def _cpus(given: Any) -> frozenset[int] | None:
    if given is None:
        return None
    numbers = given if hasattr(given, "__iter__") else [given]
    cpus = frozenset(check_integer("a CPU", number) for number in numbers)
    available = os.sched_getaffinity(0)
    if not cpus or not cpus <= available:
        msg = f"affinity names CPUs {sorted(cpus)}; this process may use {sorted(available)}"
        raise ValueError(msg)
    return cpus


def _prefix(given: bool | str, rank: int) -> str | None:
    if given is True:
        return f"[{rank}] "
    return given.format(rank=rank) if isinstance(given, str) else None


class _Prefixed(io.RawIOBase):
    """Writes whole lines, each in one call, so that lines of several workers are never interleaved."""

    def __init__(self, fd: int, prefix: bytes) -> None:
        self._fd = fd
        self._prefix = prefix
        self._rest = b""
        self._within_line = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: ReadableBuffer, /) -> int:
        content = bytes(data)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self._write_out(line + b"\n")
            self._within_line = False
        return len(content)

    def flush(self) -> None:
        if self._rest and not self.closed:
            self._write_out(self._rest)
            self._within_line = True
            self._rest = b""

    def _write_out(self, text: bytes) -> None:
        rest = text if self._within_line else self._prefix + text
        while rest:
            rest = rest[os.write(self._fd, rest) :]


def _prefix_output(prefix: str) -> None:
    """Make `sys.stdout` write `prefix` before each line.

    Output that C code and other programs write to the descriptor is not changed.
    """
    stream: Any = sys.stdout
    stream.flush()
    raw: Any = _Prefixed(stream.fileno(), prefix.encode(stream.encoding, stream.errors))
    sys.stdout = io.TextIOWrapper(raw, stream.encoding, stream.errors, newline="\n", write_through=True)
