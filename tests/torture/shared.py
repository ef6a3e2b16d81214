"""What queues, broadcasts, caches, locks and newest values have in common: actors know their numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.torture.actions import ActorState


def meet(known: list[Any], shared: Any) -> None:
    """Keep what is not known yet."""
    if all(shared.number != other.number for other in known):
        known.append(shared)


def inviting(kind: str) -> Callable[[ActorState, random.Random], None]:
    """Return the action that sends one of those that an actor knows, by the name of the attribute."""

    def invite(actor_state: ActorState, rng: random.Random) -> None:
        if known := getattr(actor_state, kind):
            rng.choice(actor_state.state.boxes).send(rng.choice(known))

    return invite


def introduce(actor_state: ActorState, known: list[Any], shared: Any, rng: random.Random) -> None:
    """Keep what was made, and send it to some actors."""
    meet(known, shared)
    for box in rng.sample(actor_state.state.boxes, min(3, len(actor_state.state.boxes))):
        box.send(shared)
