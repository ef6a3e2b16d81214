"""Everything that needs a GPU in one call, for a machine that is lent for minutes and has no network.

``python -m bench.gpu.report FOLDER [STEP ...] [--seconds N]``, in the repository's root. The steps: install
(into ``build/gpu``), tests, round_trip, deaths, facts. Each ends with its share of the time, and has what
those before it left over; one that fails does not stop the next. The folder then holds ``report.json`` (the
machine; status and seconds of each step), ``report.log`` (what they said), ``tests.xml``, and a JSON file of
each program. Results are written as they come.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine
from bench.gpu.bounded import GRACE, adopt_orphans, end_children, run
from bench.gpu.keep import keep

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "gpu"
SECONDS = 530.0  # and half a minute for what has to be killed: a call of ten minutes has room for it
# Without the first there is nothing; what it does not need, the tests have.
SHARES = {"install": 240, "tests": 100, "round_trip": 50, "deaths": 50, "facts": 100}
LAST_TEST = 65.0  # what a test that began just in time may still take
PACKAGES = ("cupy-cuda13x", "jax", "numba", "numba-cuda", "pybind11", "pytest", "scikit-build-core")
GPU = "name,driver_version,memory.total,memory.used,persistence_mode,compute_mode,mig.mode.current"
KEEP_UP = "from bench.gpu.driver import driver; driver(); import sys; sys.stdin.read()"


def command(step: str, folder: Path, seconds: float) -> list[str]:
    """What a step runs; but for the first it ends by itself before its time is over."""
    own = max(seconds - GRACE, 1)
    if step == "install":
        options = ["--no-index", "--no-build-isolation", "--no-deps", "--upgrade", "--target", str(SITE)]
        words = ["pip", "install", "--disable-pip-version-check", *options, "."]
    elif step == "tests":
        until = f"--session-timeout={max(own - LAST_TEST, 1):.0f}"
        plugins = ["-p", "pytest_timeout", "-p", "no:cacheprovider"]
        words = ["pytest", *plugins, "-v", until, f"--junitxml={folder}/tests.xml", "-m", "gpu", "tests/cuda"]
    else:
        words = [f"bench.gpu.{step}", "--json", f"{folder}/{step}.json", "--seconds", f"{own:.0f}"]
    return [sys.executable, "-m", *words]


def environment() -> dict[str, str]:
    """For all steps: what was installed comes first, output at once, no plugin that happens to be there."""
    path = [str(SITE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


@contextlib.contextmanager
def driver_kept_up(step: str) -> Iterator[int | None]:
    """Have a process that uses the GPU: without any, the driver may start anew, for seconds, in each test.

    The facts are asked without it: some are about what the last user of a GPU leaves.
    """
    if step in ("install", "facts"):
        yield None
        return
    words = [sys.executable, "-c", KEEP_UP]
    with subprocess.Popen(words, cwd=ROOT, env=environment(), stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def about() -> dict[str, Any]:
    """What the results must say about where they come from."""
    versions = machine.versions()
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    found: dict[str, Any] = {"machine": machine.facts(), "versions": versions}
    for words in (["nvidia-smi", f"--query-gpu={GPU}", "--format=csv"], ["c++", "--version"]):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
            found[words[0]] = (done.stdout + done.stderr).strip().splitlines()
        except (OSError, subprocess.SubprocessError) as error:
            found[words[0]] = str(error)
    return found


def main() -> int:
    """Run the steps, and write the report before and after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="these only")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of them together")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(SHARES):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(SHARES)}")
    steps = [step for step in SHARES if step in options.steps or not options.steps]
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else who is started may ignore it
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
            with driver_kept_up(step) as keeper:
                status = run(command(step, folder, seconds), seconds, log, cwd=ROOT, env=environment())
                left = end_children(keeper)
            found["steps"][step] = {
                "status": status,
                "seconds": round(time.monotonic() - began, 1),
                "left running": left,
            }
            keep(folder / "report.json", found)
            print(f"{step}: {found['steps'][step]}", flush=True)
    return int(any(step["status"] != 0 for step in found["steps"].values()))


if __name__ == "__main__":
    sys.exit(main())
