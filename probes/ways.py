"""Programs that measure the same thing done in several ways, one after the other."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.keep import keep, limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECONDS = 120.0


def measure_all(
    description: str | None,
    ways: Mapping[str, Callable[[dict[str, Any], Callable[[], None]], None]],
    *,
    on_simulator: bool = False,
) -> int:
    """Measure all ways, print a table, and write it to the file of `--json` as results arrive.

    A way fills its results into a dictionary by what was measured, and calls the function after each. If it
    raises, the text is among its results, under "error", and the next way follows. Only ways that measure no
    times on the simulated driver may run there.

    Returns
    -------
    int
        The program's exit status: 2 if the ways may not run on the simulated driver, which is used; 1 if a
        way of shmtensor failed.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of it")
    options = parser.parse_args()
    if os.environ.get("SHMTENSOR_LIBCUDA") and not on_simulator:
        print("SHMTENSOR_LIBCUDA is set: times on a simulated driver mean nothing", file=sys.stderr)
        return 2
    results: dict[str, Any] = {}
    facts = {
        "date": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "linux": platform.release(),
        "results": results,
    }
    end = time.monotonic() + options.seconds
    for number, (name, way) in enumerate(ways.items()):
        results[name] = found = {}
        try:
            with limited((end - time.monotonic()) / (len(ways) - number)):
                way(found, lambda: keep(options.json, facts))
        except Exception as error:  # the others may succeed
            found["error"] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        keep(options.json, facts)
        for what, value in found.items():
            values = value.items() if isinstance(value, dict) else (("", value),)
            print(f"{name:27} {what:20}", *(f"{key} {_shown(each)}" for key, each in values), flush=True)
    return int(any("error" in found for name, found in results.items() if name.startswith("shmtensor")))


def _shown(value: Any) -> str:
    return f"{value:9.1f}" if isinstance(value, float) else str(value)
