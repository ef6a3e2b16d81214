"""Runs a case: the measurements of all peers are interleaved, round after round."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.model import Case, Row, Samples
from bench.options import Options
from bench.peers import missing
from bench.worker_client import WorkerClient, WorkerError, running_worker

__all__ = ["Result", "run_case"]


@dataclass
class Result:
    """The result of a case."""

    case: Case
    samples: Samples = field(default_factory=Samples)
    rows: list[Row] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)  # peers that did not take part, and why
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {
            "case": self.case.name,
            "rows": [row.to_json() for row in self.rows],
            "absent": self.absent,
            "samples": self.samples.to_json(),
        }


def run_case(
    case: Case,
    options: Options,
    peers: tuple[str, ...] | None = None,
    rounds: int | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Result:
    """Measure every variant of every peer once per round, interleaved, and discard the warm-up rounds.

    A peer that is not installed or fails is named in the result; the others continue.
    """
    result = Result(case)
    rounds = rounds or (2 if options.quick else case.rounds)
    warm_up = 0 if options.quick else case.warm_up
    with ExitStack() as stack:
        workers: dict[str, WorkerClient] = {}
        for peer in case.peers:
            if peers is not None and peer not in peers:
                continue
            why = missing(peer)
            if why is None:
                try:
                    workers[peer] = stack.enter_context(running_worker(case, peer, options))
                    result.versions |= workers[peer].versions
                except WorkerError as error:
                    why = str(error)
            if why is not None:
                result.absent[peer] = why
        for turn in range(-warm_up, rounds):
            say(f"{case.name}: round {turn + 1} of {rounds}" if turn >= 0 else f"{case.name}: warm-up")
            for peer, worker in list(workers.items()):
                try:
                    _measure(result, worker, peer, options, keep=turn >= 0)
                except WorkerError as error:
                    result.absent[peer] = str(error)
                    del workers[peer]
    result.rows = case.rows(result.samples)
    return result


def _measure(result: Result, worker: WorkerClient, peer: str, options: Options, *, keep: bool) -> None:
    for variant in result.case.variants(peer, options):
        measure = worker.measure(variant)
        if keep:
            result.samples.add(peer, variant, measure)
