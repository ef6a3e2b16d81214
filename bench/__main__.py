"""The command: ``python -m bench [CASE ...]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.cases import CASES, PROGRAMS, load_case, load_program
from bench.harness import Result, run_case
from bench.options import Options, add_pin
from bench.peers import PEERS
from bench.report import print_result, write_json


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of shmtensor.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="what to measure, or 'all'; none: list them")
    parser.add_argument("--peers", nargs="+", choices=PEERS, help="only these (default: all of the case)")
    parser.add_argument("--rounds", type=int, help="measurements of each (default: the case's)")
    add_pin(parser)
    parser.add_argument("--quick", action="store_true", help="few, small measurements: a check")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 if shmtensor itself could not be measured."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] in PROGRAMS:
        return load_program(words[0])(words[1:])
    arguments = _arguments(words)
    if not arguments.cases:
        for name in CASES:
            print(f"{name:10} {load_case(name).summary}")
        for name, summary in PROGRAMS.items():
            print(f"{name:10} {summary}; own options: python -m bench {name} --help")
        return 0
    names = list(CASES) if arguments.cases == ["all"] else arguments.cases
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    options = Options(quick=arguments.quick, pin=arguments.pin)
    peers = None if arguments.peers is None else tuple(arguments.peers)
    results: list[Result] = []
    for name in names:
        result = run_case(load_case(name), options, peers, arguments.rounds, _show_progress)
        print_result(result)
        results.append(result)
        if arguments.json is not None:  # after each case, so that an interrupted run keeps its results
            write_json(arguments.json, results, options)
    return 1 if any("shmtensor" in result.absent for result in results) else 0


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
