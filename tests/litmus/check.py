"""Runs herd7 over the litmus tests: ``python -m tests.litmus.check``, or ``make litmus``.

Each is a step or two of the block protocol in two or three processes, and a forbidden outcome.
The model is C++'s own, as repaired (Lahav et al., "Repairing sequential consistency in C/C++11", PLDI
2017), so an outcome that it forbids is impossible with any compiler and processor. Each is run three times:

- sequentially consistent, as the code has it: forbidden;
- with acquire and release: those in `message` still forbidden, those in `buffering` allowed;
- relaxed: allowed, which shows that the test can fail.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__: list[str] = []

FOLDER = Path(__file__).parent
ORDERS = {
    "seq_cst": {"LOAD": "seq_cst", "STORE": "seq_cst", "RMW": "seq_cst"},
    "acq_rel": {"LOAD": "acquire", "STORE": "release", "RMW": "acq_rel"},
    "relaxed": {"LOAD": "relaxed", "STORE": "relaxed", "RMW": "relaxed"},
}
EXPECTED = {
    "message": {"seq_cst": "Never", "acq_rel": "Never", "relaxed": "Sometimes"},
    "buffering": {"seq_cst": "Never", "acq_rel": "Sometimes", "relaxed": "Sometimes"},
}


def observe(test: str, order: str) -> str:
    """Return how often the outcome is observed: Never, Sometimes or Always; Race where the data race."""
    for name, value in ORDERS[order].items():
        test = re.sub(rf"\b{name}\b", f"memory_order_{value}", test)
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
        file.write(test)
        file.flush()
        done = subprocess.run(
            ["herd7", "-model", "rc11.cat", file.name],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    if "Flag undefined" in done.stdout or "Flag data-race" in done.stdout:
        return "Race"
    found = re.search(r"^Observation \S+ (\w+)", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"herd7 printed no result:  {done.stdout}{done.stderr}")
    return found[1]


def main() -> int:
    if shutil.which("herd7") is None:
        print("herd7 is not installed: it is in Debian's package herdtools7 (Debian 14 and later)")
        return 2
    wrong = 0
    for file in sorted(FOLDER.glob("*/*.litmus")):
        expected = EXPECTED[file.parent.name]
        seen = {order: observe(file.read_text(), order) for order in ORDERS}
        good = seen == expected
        wrong += not good
        text = ", ".join(f"{order} {often.lower()}" for order, often in seen.items())
        print(f"{'ok   ' if good else 'WRONG'} {file.parent.name}/{file.stem}: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
