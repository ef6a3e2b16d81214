"""Runs a case: the measurements of all peers are interleaved, round after round."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.model import Case, Row, Samples
from bench.options import Options
from bench.peers import SPINNING_PEERS, missing
from bench.worker_client import WorkerClient, WorkerError, running_worker


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

    Peers that spin are measured one by one, after the others. A peer that is not installed or fails is named
    in the result; the others continue.
    """
    result = Result(case)
    rounds = rounds or (2 if options.quick else case.rounds)
    turns = range(0 if options.quick else -case.warm_up, rounds)
    chosen = [peer for peer in case.peers if peers is None or peer in peers]
    spinning = [peer for peer in chosen if peer in SPINNING_PEERS]
    for group in ([peer for peer in chosen if peer not in spinning], *([peer] for peer in spinning)):
        _run_group(result, group, options, turns, say)
    result.rows = case.rows(result.samples)
    return result


def _run_group(
    result: Result, group: list[str], options: Options, turns: range, say: Callable[[str], None]
) -> None:
    """Measure some peers; their processes run at the same time."""
    case = result.case
    with ExitStack() as stack:
        workers: dict[str, WorkerClient] = {}
        for peer in group:
            why = missing(peer)
            if why is None:
                try:
                    workers[peer] = stack.enter_context(running_worker(case, peer, options))
                    result.versions |= workers[peer].versions
                except WorkerError as error:
                    why = str(error)
            if why is not None:
                result.absent[peer] = why
        for turn in turns:
            where = f"round {turn + 1} of {turns.stop}" if turn >= 0 else "warm-up"
            for peer, worker in list(workers.items()):
                say(f"{case.name}: {where}, {peer}")
                try:
                    _measure(result, worker, peer, options, keep=turn >= 0)
                except WorkerError as error:
                    result.absent[peer] = str(error)
                    del workers[peer]


def _measure(result: Result, worker: WorkerClient, peer: str, options: Options, *, keep: bool) -> None:
    for variant in result.case.variants(peer, options):
        measure = worker.measure(variant)
        if keep:
            result.samples.add(peer, variant, measure)
