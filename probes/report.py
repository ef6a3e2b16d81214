"""Run everything that needs a GPU in one call, on a machine that is available for minutes without a network.

``python -m probes.report FOLDER [STEP ...] [--seconds N]``, in the repository's root. The steps: install
(into ``build/gpu``), tests, round_trip, flight, weights, values, batches, deaths, storm, facts. Each step has
a share of the time, plus what earlier steps left over; a step that fails does not stop the next. The folder
then has ``report.json`` (the machine; status, seconds and results of each step), ``report.log`` (their
output) and ``tests.xml``. Results are written as they come.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine
from probes.bounded import GRACE, adopt_orphans, end_children, run
from probes.keep import keep
from probes.summary import found_in

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "gpu"
SECONDS = 530.0  # plus half a minute to kill what remains: fits in ten minutes
# The first step is required; the tests get the time that it does not use.
SHARES = {
    "install": 100,
    "tests": 150,
    "round_trip": 30,
    "flight": 40,
    "weights": 30,
    "values": 20,
    "batches": 60,
    "deaths": 30,
    "storm": 60,
    "facts": 80,
}
TESTS_SIDE_BY_SIDE = min(8, os.cpu_count() or 1)  # if pytest-xdist is installed
LAST_TEST = 65.0  # seconds that the last test may take
PACKAGES = ("cupy-cuda13x", "jax", "numba", "numba-cuda", "pybind11", "pytest", "scikit-build-core")
GPU = "name,driver_version,memory.total,memory.used,persistence_mode,compute_mode,mig.mode.current"
KEEP_UP = "from probes.driver import driver; driver(); import sys; sys.stdin.read()"


def command(step: str, file: Path, seconds: float) -> list[str]:
    """Return the command of a step, which writes its results to a file.

    All but the first end by themselves within their time.
    """
    own = max(seconds - GRACE, 1)
    if step == "install":
        options = ["--no-index", "--no-build-isolation", "--no-deps", "--upgrade", "--target", str(SITE)]
        words = ["pip", "install", "--disable-pip-version-check", *options, "."]
    elif step == "tests":
        until = f"--session-timeout={max(own - LAST_TEST, 1):.0f}"
        plugins = ["-p", "pytest_timeout", "-p", "no:cacheprovider"]
        if importlib.util.find_spec("xdist"):
            plugins += ["-p", "xdist.plugin", "-n", str(TESTS_SIDE_BY_SIDE), "--dist", "worksteal"]
        words = ["pytest", *plugins, "-v", until, f"--junitxml={file}", "-m", "gpu", "tests/cuda"]
    else:
        words = [f"probes.{step}", "--json", str(file), "--seconds", f"{own:.0f}"]
    return [sys.executable, "-m", *words]


def environment() -> dict[str, str]:
    """Return the environment of all steps: installed package first, unbuffered output, no plugins."""
    path = [str(SITE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


@contextlib.contextmanager
def driver_kept_up(step: str) -> Iterator[int | None]:
    """Have a process that uses the GPU: otherwise the driver may initialize again, for seconds, in each test.

    The experiments of `facts` run without it: some observe what the last user of a GPU leaves.
    """
    if step in ("install", "facts"):
        yield None
        return
    words = [sys.executable, "-c", KEEP_UP]
    with subprocess.Popen(words, cwd=ROOT, env=environment(), stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def about() -> dict[str, Any]:
    """Return the facts that identify the machine and the versions."""
    versions = machine.versions()
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    found: dict[str, Any] = {"date": machine.now(), "machine": machine.facts(), "versions": versions}
    for words in (["nvidia-smi", f"--query-gpu={GPU}", "--format=csv"], ["c++", "--version"]):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
            found[words[0]] = (done.stdout + done.stderr).strip().splitlines()
        except (OSError, subprocess.SubprocessError) as error:
            found[words[0]] = str(error)
    return found


def main() -> int:
    """Run the steps; write the report before and after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="steps to run (default: all)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of all together")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(SHARES):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(SHARES)}")
    steps = [step for step in SHARES if step in options.steps or not options.steps]
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children must not inherit SIG_IGN
    adopt_orphans()
    end = time.monotonic()
    found: dict[str, Any] = {**about(), "steps": {}}
    with (folder / "report.log").open("w") as log:
        for step in steps:
            found["steps"][step] = {"status": "cut short"}
            keep(folder / "report.json", found)
            end += SHARES[step] / sum(SHARES[each] for each in steps) * options.seconds
            began = time.monotonic()
            seconds = max(end - began, 1.0)
            file = folder / ("tests.xml" if step == "tests" else f"{step}.json")
            file.unlink(missing_ok=True)  # that of an earlier report
            with driver_kept_up(step) as keeper:
                status = run(command(step, file, seconds), seconds, log, cwd=ROOT, env=environment())
                left = end_children(keeper)
            found["steps"][step] = {
                "status": status,
                "seconds": round(time.monotonic() - began, 1),
                "left running": left,
            }
            if file.exists():
                found[step] = found_in(file)
            keep(folder / "report.json", found)
            if step != "tests":  # whose file has the reasons of failures
                file.unlink(missing_ok=True)
            print(f"{step}: {found['steps'][step]}", flush=True)
    return int(any(step["status"] != 0 for step in found["steps"].values()))


if __name__ == "__main__":
    sys.exit(main())
