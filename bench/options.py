"""The options of a run, the same in all its processes."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Pin = Literal["apart", "together", "none"]
"""Where both processes of a case run: on a processor each, on one together, or where the kernel wants."""


def _processors() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Options:
    """Settings of a run."""

    quick: bool = False  # tiny sizes and few repetitions: checks that a case works, and measures nothing
    pin: Pin = "apart"
    # Those that the run may use: a process that starts pinned cannot see the others.
    processors: tuple[int, ...] = field(default_factory=_processors)

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Options:
        return cls(**json.loads(text))

    def place(self, side: int) -> None:
        """Pin this process: side 0 measures, side 1 is its partner."""
        if self.pin == "none" or len(self.processors) < 2:
            return
        os.sched_setaffinity(0, {self.processors[side if self.pin == "apart" else 0]})


def program_parser(name: str, documentation: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m bench NAME`, a separate program, with its option `--json`."""
    parser = argparse.ArgumentParser(
        prog=f"python -m bench {name}", description=documentation.splitlines()[0]
    )
    parser.add_argument("--json", type=Path, help="keep everything that was measured in this file")
    return parser


def add_rounds(parser: argparse.ArgumentParser, rounds: int, of: str, quick: str) -> None:
    """Add the options `--rounds`, with its default and of what they are, and `--quick`."""
    parser.add_argument("--rounds", type=int, default=rounds, help=of)
    parser.add_argument("--quick", action="store_true", help=f"{quick}: a check")


def add_pin(parser: argparse.ArgumentParser) -> None:
    """Add the option `--pin`."""
    parser.add_argument("--pin", choices=("apart", "together", "none"), default="apart", help="processors")
