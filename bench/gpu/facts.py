"""What the driver really does, where its documentation is silent: a table of answers.

``python -m bench.gpu.facts [--json FILE] [--seconds N] [NUMBER ...]``. The numbers are those of the questions
in the design notes. The parent never uses CUDA: each question has a process of its own, with a limit. One
that fails or takes too long has ``{"error": what happened}`` for an answer, also in a part of its answer. The
file is written after each. On the simulated driver (SHMTENSOR_LIBCUDA) the answers are the simulator's, the
table says so, and no time is taken.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.gpu import library_questions, memory_questions, order_questions, times, work
from bench.gpu.children import ask
from bench.gpu.keep import keep

LIMIT = 40.0  # seconds a question; each takes a few, most of which is the start of the driver
LONG = {"11": 60.0, "12": 75.0}
SECONDS = 240.0


def number_of(question: Any) -> str:
    return str(question.__name__.split("_")[1])


QUESTIONS = sorted(
    (
        getattr(module, name)
        for module in (library_questions, memory_questions, order_questions, times, work)
        for name in vars(module)
        if name.startswith("question_")
    ),
    key=lambda question: int(number_of(question)),
)


def without_answer(answer: Any) -> bool:
    """Is it, or a part of it, an error?"""
    return isinstance(answer, dict) and ("error" in answer or any(map(without_answer, answer.values())))


def main() -> int:
    """Ask all, print a table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of them together")
    parser.add_argument("numbers", nargs="*", help="these questions only")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    simulated = "SHMTENSOR_LIBCUDA" in os.environ
    print("answers of the SIMULATED driver" if simulated else "answers of the driver")
    answers: dict[str, Any] = {}
    for question in QUESTIONS:
        number, left = number_of(question), end - time.monotonic()
        if options.numbers and number not in options.numbers:
            continue
        if left > 5:
            answer = ask(question, min(LONG.get(number, LIMIT), left))
        else:
            answer = {"error": f"not asked: the {options.seconds:.0f} s are over"}
        answers[question.__name__] = answer
        keep(options.json, {"simulated": simulated, "answers": answers})
        print(f"{question.__name__[9:]:>8}  {question.__doc__}\n          {answer}", flush=True)
    failed = [name for name, answer in answers.items() if without_answer(answer)]
    print(f"{len(answers)} asked; without an answer, in whole or in part: {', '.join(failed) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
