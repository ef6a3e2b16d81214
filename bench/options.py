"""What a run was asked for; the same in every process of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Options", "Pin"]

Pin = Literal["apart", "together", "none"]


@dataclass(frozen=True)
class Options:
    """Settings of a run.

    Attributes
    ----------
    quick
        Tiny sizes and few repetitions: shows that a case works, measures nothing.
    pin
        Where the two processes of a case run: each on a processor of its own, both on the same one, or
        where the kernel puts them.
    """

    quick: bool = False
    pin: Pin = "apart"

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Options:
        return cls(**json.loads(text))

    def place(self, side: int) -> None:
        """Pin this process: side 0 is the one that measures, side 1 its partner."""
        processors = sorted(os.sched_getaffinity(0))
        if self.pin == "none" or len(processors) < 2:
            return
        os.sched_setaffinity(0, {processors[side if self.pin == "apart" else 0]})
