"""Runs CPython's tests of processes and executors on the drop-in: `python -m tests.cpython [TEST ...]`.

Each class has its own process and deadline. A failed test is run again with the standard library itself: a
failure there does not concern the drop-in. Other failures must be in `differences.py`, and all tests listed
there must fail. At the end no process and no name in /dev/shm may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cpython import sources
from tests.cpython.differences import DIFFERENCES
from tests.helpers.children import clean_environment
from tests.helpers.leaks import abandoned, shm_names

MODULES = (
    *(f"with_{method}" for method in sources.METHODS),
    "test_multiprocessing_main_handling",
    *sources.futures_modules(),
)
ONE = Path(__file__).with_name("one.py")


def members(session: int) -> list[int]:
    """Return the processes of a process session of the system."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.getsid(pid) == session and not Path(f"/proc/{pid}/stat").read_text().count(") Z "):
                found.append(pid)
        except OSError:
            continue
    return found


def run_one(
    folder: Path, module: str, name: str, deadline: float, log, timeout: float = 10
) -> dict[str, str]:
    """Run a class and return what each test did: passed, skipped, failed or hung."""
    log.write(f"\n=== {folder.name} {module}.{name}\n".encode())
    log.flush()
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch, "results")
        results.touch()
        env = clean_environment(PYTHONPATH=str(folder), TMPDIR=scratch)
        process = subprocess.Popen(
            [sys.executable, ONE, folder, module, name, results],
            cwd=scratch, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(deadline)
        except subprocess.TimeoutExpired:
            log.write(b"=== killed at the deadline\n")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        done: dict[str, str] = {}
        for line in results.read_text().splitlines():
            word, test = line.split(" ", 1)
            done[f"{name}.{test}"] = "hung" if word == "began" else word
        if process.returncode:
            done.setdefault(f"{name}.its process", f"ended with {process.returncode}")
        end = time.monotonic() + timeout
        while left := members(process.pid):
            if time.monotonic() > end:
                done[f"{name}.its processes"] = f"left: {left}"
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.05)
    return done


def classes(folder: Path, module: str) -> list[str]:
    env = clean_environment(PYTHONPATH=str(folder))
    names = subprocess.check_output([sys.executable, ONE, folder, module], env=env, text=True).split()
    return [name for name in names if sources.concerns(module, name)]


def expected(module: str) -> dict[str, str]:
    return {entry.test: entry.reason for entry in DIFFERENCES if entry.applies(module)}


def judge(module: str, name: str, done: dict[str, str], again) -> list[str]:
    """Return one line for each unexpected result."""
    known, wrong = expected(module), []
    bad = {test: word for test, word in done.items() if word not in {"passed", "skipped"}}
    if unexpected := bad.keys() - known.keys():
        elsewhere = again()
        for test in sorted(unexpected):
            if elsewhere.get(test, "passed") not in {"passed", "skipped"}:
                print(f"   with the standard library too: {module}.{test} {bad[test]}", flush=True)
            else:
                wrong.append(f"{module}.{test} {bad[test]}")
    missed = {test for test in known if test.startswith(f"{name}.")} - bad.keys()
    return wrong + [f"{module}.{test} was expected to fail, and did not" for test in sorted(missed)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=MODULES, help="modules or classes: with_spawn.TestWait")
    parser.add_argument("--deadline", type=float, default=300, help="seconds for a class")
    arguments = parser.parse_args()
    if not sources.are_installed():
        print("this Python has been installed without its tests")
        return 0
    names = shm_names()
    build = Path(__file__).parents[2] / "build" / "cpython" / f"{sys.version_info[0]}.{sys.version_info[1]}"
    ours, theirs = build / "drop-in", build / "standard"
    sources.write(ours)
    sources.write(theirs, standard=True)
    wrong, counts = [], {}
    with open(build / "log", "ab") as log:
        for given in arguments.tests:
            module, _, only = (given, "", "") if given in MODULES else given.rpartition(".")
            for name in [only] if only else classes(ours, module):
                done = run_one(ours, module, name, arguments.deadline, log)
                for word in done.values():
                    counts[word] = counts.get(word, 0) + 1
                found = judge(
                    module,
                    name,
                    done,
                    lambda: run_one(theirs, module, name, arguments.deadline, log),  # noqa: B023
                )
                print(f"{module}.{name}: {len(done)} tests", *found, sep="\n   ", flush=True)
                wrong += found
    if left := abandoned(shm_names() - names):
        wrong.append(f"names left in /dev/shm: {left}")
    print(f"Python {sys.version.split()[0]}:", ", ".join(f"{n} {word}" for word, n in sorted(counts.items())))
    print("\n".join(["wrong:", *wrong]) if wrong else f"as expected; the log is {build / 'log'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
