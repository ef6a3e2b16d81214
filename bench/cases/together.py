"""The hand-over with both processes on one processor.

No other processor has to be woken, which takes most of the time of a hand-over between two.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from bench.cases import handover
from bench.model import Probe
from bench.options import Options
from bench.peers import MULTIPROCESSING_PEERS


def _probe(peer_name: str, options: Options) -> AbstractContextManager[Probe]:
    return handover.CASE.probe(peer_name, replace(options, pin="together"))


CASE = replace(
    handover.CASE,
    name="together",
    summary="the same with both processes on one processor",
    peers=(*MULTIPROCESSING_PEERS, "faster-fifo"),
    probe=_probe,
    rounds=7,
)
