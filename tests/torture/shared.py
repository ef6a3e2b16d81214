"""What queues, broadcasts, caches, locks and newest values have in common: actors know their numbers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.torture.actions import ActorState


def meet(known: list[Any], shared: Any) -> None:
    """Keep what is not known yet."""
    if all(shared.number != other.number for other in known):
        known.append(shared)


def introduce(actor_state: ActorState, known: list[Any], shared: Any, rng: random.Random) -> None:
    """Keep what was made, and send it to some actors."""
    meet(known, shared)
    for box in rng.sample(actor_state.state.boxes, min(3, len(actor_state.state.boxes))):
        box.send(shared)
