"""Which start method: what was asked for, checked, or the rule of ``"auto"``.

docs/guide/starting-workers.md has the rule as a table; a test compares the two.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

from shmtensor.multiprocessing._facts import Facts, cuda_is_initialised, own_process

__all__ = ["Decision", "decide", "explain_start_method", "own_process", "resolve"]

VARIABLE = "SHMTENSOR_START_METHOD"
_METHODS = ("fork", "spawn", "forkserver", "server")
_HOW = (
    f"To decide yourself, give a start method by name or set {VARIABLE}; "
    "shmtensor.multiprocessing.explain_start_method() prints all the facts."
)


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Decision:
    """What ``"auto"`` means in a process."""

    method: str
    reason: str
    replaced: bool = False  # the default would have broken


def decide(facts: Facts) -> Decision:
    """Choose a start method by the facts alone."""
    if facts.owned and facts.main:
        return Decision("spawn", "the program owns the process, and a worker can import its main module")
    if facts.default == "fork":
        if not (facts.cuda or facts.threads):
            return Decision("fork", "it is the default, and nothing here speaks against it")
        why = "CUDA is initialised" if facts.cuda else "other threads run"
        return Decision(
            "server" if facts.server else "spawn",
            f"{why} in this process, so that forked workers would break or hang",
            replaced=True,
        )
    if facts.main or not facts.server:
        return Decision(facts.default, "it is the default, and starts workers that inherit nothing")
    return Decision("server", f"workers started by {facts.default} could not import the main module")


_warned = False


def resolve(asked: str | None) -> str | None:
    """Return the name of the method that was asked for: by name, by ``"auto"``, by the environment.

    Returns
    -------
    str or None
        None if nothing was asked for: the default holds.

    Raises
    ------
    ValueError
        For a name that is none, or for fork where CUDA is initialised.
    """
    set_by = f"start_method={asked!r}"
    if asked is None or asked == "auto":
        chosen = os.environ.get(VARIABLE)
        if chosen:
            asked, set_by = chosen, f"{VARIABLE}={chosen}"
    if asked is None:
        return None
    if asked == "auto":
        return _resolve_auto()
    if asked not in _METHODS:
        msg = f"{set_by}: cannot find context for {asked!r}; choose one of {', '.join(_METHODS)}, auto"
        raise ValueError(msg)
    if asked == "fork" and cuda_is_initialised():
        msg = (
            f"{set_by}: CUDA is initialised in this process, and cannot be used in workers forked from it; "
            "use spawn, forkserver or server, or start the workers before CUDA is first used"
        )
        raise ValueError(msg)
    return asked


def _resolve_auto() -> str:
    global _warned
    facts = Facts.of_this_process()
    decision = decide(facts)
    if decision.replaced and not _warned:
        _warned = True
        msg = (
            f"workers are started by {decision.method} instead of {facts.default}: {decision.reason}. {_HOW}"
        )
        warnings.warn(msg, stacklevel=4)
    return decision.method


def explain_start_method() -> None:
    """Print which start method ``"auto"`` chooses in this process, and the facts that decide it."""
    facts = Facts.of_this_process()
    decision = decide(facts)
    chosen = os.environ.get(VARIABLE)
    if chosen and chosen != "auto":
        first = f"start method: {chosen}, because {VARIABLE} says so"
    else:
        first = f"start method: {decision.method}, because {decision.reason}"
    print("\n".join([first, *(f"  - {line}" for line in facts.lines())]))  # noqa: T201  # what it is for
