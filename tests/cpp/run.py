"""Run the C++ tests in several processes side by side: ``run.py PROGRAM [GoogleTest's arguments]``.

Most of the tests wait most of the time. Prints what the processes printed that failed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO

PER_PROCESSOR = 2
MOST = 8
RUN, OK = "[ RUN      ]", "[       OK ]"


def start(words: list[str], index: int, count: int) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    output = tempfile.TemporaryFile()  # noqa: SIM115
    shard = {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)}
    return subprocess.Popen(words, env=os.environ | shard, stdout=output, stderr=subprocess.STDOUT), output


def without_passed(text: str) -> list[str]:
    """Return the lines, without those of tests that printed nothing else and passed."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(OK) and lines and lines[-1].startswith(RUN):
            lines.pop()
        elif not line.startswith("[----------]") and line:
            lines.append(line)
    return lines


def main(words: list[str]) -> int:
    began = time.monotonic()
    count = min(PER_PROCESSOR * len(os.sched_getaffinity(0)), MOST)
    shards = [start(words, index, count) for index in range(count)]
    tests = failed = 0
    try:
        for index, (process, output) in enumerate(shards):
            code = process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
            tests += sum(map(int, re.findall(r"^\[={10}\] (\d+) tests? from .* ran\.", text, re.MULTILINE)))
            if code != 0:
                failed += 1
                how = f"ended by signal {-code}" if code < 0 else f"exit status {code}"
                print(*without_passed(text), f"process {index + 1} of {count}: {how}\n", sep="\n", flush=True)
    finally:
        for process, _ in shards:  # after Ctrl-C; the children of a test end with it
            process.kill()
            process.wait()
    result = f"{failed} of {count} processes failed" if failed else "all passed"
    print(f"{tests} C++ tests in {count} processes, {time.monotonic() - began:.0f} s: {result}")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    sys.exit(code)
