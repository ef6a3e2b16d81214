"""Randomized crash tests in rounds: `python -m tests.torture --seed 1 --minutes 10 --processes 6`."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import shmtensor as st
from tests.helpers.children import clean_environment

ROUND = "tests.torture.round"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", default="1", help="any text; seeds all random choices")
    parser.add_argument("--minutes", type=float, default=1.0, help="start no new round after this time")
    parser.add_argument("--processes", type=int, default=6, help="number of concurrent actors")
    parser.add_argument("--slices", type=int, default=10, help="phases of a round, each with a checkpoint")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a phase")
    parser.add_argument(
        "--first-round", type=int, default=0, help="number of the first round, to replay a failed one"
    )
    parser.add_argument("--rounds", type=int, default=1 << 30, help="maximum number of rounds")
    parser.add_argument("--out", type=Path, help="file for the result, as JSON")
    return parser.parse_args()


def one_round(args: argparse.Namespace, number: int) -> dict:
    """Run one round in its own process, with its own session."""
    command = [sys.executable, "-m", ROUND, args.seed, str(number), str(args.processes)]
    command += [str(args.slices), str(args.seconds)]
    limit = 120 + args.slices * (args.seconds + 30)
    try:
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, text=True, timeout=limit, env=clean_environment()
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"fault": f"the round did not finish within {limit} s", "counts": {}}
    except (IndexError, json.JSONDecodeError):
        return {"fault": f"the round exited with status {done.returncode} and without a result", "counts": {}}


def main() -> int:
    args = options()
    begin, counts, faults, processor = time.monotonic(), Counter(), [], 0.0
    started = datetime.now(timezone.utc)
    number = args.first_round
    while time.monotonic() - begin < args.minutes * 60 and number < args.first_round + args.rounds:
        result = one_round(args, number)
        counts.update(result["counts"])
        processor += result.get("processor_seconds", 0.0)
        if "fault" in result:
            faults.append({"round": number, "fault": result["fault"]})
            print(f"round {number}: FAULT\n{result['fault']}", file=sys.stderr, flush=True)
        number += 1
        kills = sum(counts[name] for name in counts if "killed" in name)
        print(
            f"{number - args.first_round} rounds, {kills} kills, {len(faults)} faults, "
            f"{time.monotonic() - begin:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if args.out:
            summary = {
                "seed": args.seed,
                "date": started.isoformat(timespec="seconds"),
                "processes": args.processes,
                "first_round": args.first_round,
                "rounds": number - args.first_round,
                "minutes": round((time.monotonic() - begin) / 60, 2),
                "processor_hours": round(processor / 3600, 3),
                "kills": kills,
                "faults": faults,
                "counts": dict(sorted(counts.items())),
                "version": st.__version__,
                "python": platform.python_version(),
                "kernel": platform.release(),
            }
            args.out.write_text(json.dumps(summary, indent=1) + "\n")
    for fault in faults:
        again = (
            f"--seed {args.seed} --processes {args.processes} --slices {args.slices} --seconds {args.seconds}"
        )
        print(
            f"replay: python -m tests.torture {again} --first-round {fault['round']} --rounds 1",
            file=sys.stderr,
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
