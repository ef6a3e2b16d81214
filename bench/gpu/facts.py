"""What the driver really does, where its documentation is silent: a table of answers.

``python -m bench.gpu.facts [--json FILE]``. The numbers are those of the questions in the design notes. The
parent never uses CUDA: each question forks its own processes. On the simulated driver (SHMTENSOR_LIBCUDA)
the answers are the simulator's, the table says so, and no time is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from bench.gpu import library_questions, memory_questions, order_questions
from bench.gpu.times import question_11

QUESTIONS = sorted(
    [
        question_11,
        *(
            getattr(module, name)
            for module in (library_questions, memory_questions, order_questions)
            for name in vars(module)
            if name.startswith("question_")
        ),
    ],
    key=lambda question: int(question.__name__.split("_")[1]),
)


def main() -> int:
    """Ask all, print a table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    simulated = "SHMTENSOR_LIBCUDA" in os.environ
    print("answers of the SIMULATED driver" if simulated else "answers of the driver")
    answers = {}
    for question in QUESTIONS:
        if simulated and question is question_11:
            continue
        answers[question.__name__] = question()
        print(f"{question.__name__[9:]:>5}  {question.__doc__}\n       {answers[question.__name__]}")
    if options.json is not None:
        options.json.write_text(json.dumps({"simulated": simulated, "answers": answers}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
