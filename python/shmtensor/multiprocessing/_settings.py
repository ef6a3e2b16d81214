"""Environment, processors and output prefix of each worker, from what the caller gave."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

__all__ = ["Affinity", "Environments", "Settings", "settings_by_rank"]

Environment = Mapping[str, "str | None"]
Environments = Environment | Sequence[Environment] | Callable[[int], Environment] | None
Cpus = int | Collection[int]
Affinity = set[int] | frozenset[int] | Sequence[Cpus] | Callable[[int], Cpus] | None


class Settings:
    """What is set for one worker before its function is called."""

    def __init__(
        self, environment: Environment | None, cpus: frozenset[int] | None, prefix: str | None
    ) -> None:
        self.environment = environment
        self.cpus = cpus
        self.prefix = prefix

    @property
    def before_start(self) -> bool:
        """True if a setting must be made before a new interpreter starts."""
        return self.environment is not None or self.cpus is not None

    def apply(self) -> None:
        """Set them, in the worker."""
        for name, value in (self.environment or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self.cpus is not None:
            os.sched_setaffinity(0, self.cpus)
        if self.prefix is not None:
            from shmtensor.multiprocessing._prefix import prefix_output

            prefix_output(self.prefix)


def settings_by_rank(
    nprocs: int, env: Environments, affinity: Affinity, prefix_output: bool | str
) -> list[Settings]:
    """Return the settings of every rank, checked before any worker is started."""
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
    cpus = frozenset({given} if isinstance(given, int) else given)
    available = os.sched_getaffinity(0)
    if not cpus or not cpus <= available:
        msg = f"affinity names CPUs {sorted(cpus)}; this process may use {sorted(available)}"
        raise ValueError(msg)
    return cpus


def _prefix(given: bool | str, rank: int) -> str | None:
    if given is True:
        return f"[{rank}] "
    return given.format(rank=rank) if isinstance(given, str) else None
