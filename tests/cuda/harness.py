"""Each case runs in its own program, since a process loads one driver, once."""

from __future__ import annotations

import functools
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.children import STAND_IN, run_python

ROOT = Path(__file__).parents[2]
SIMULATORS = Path(os.environ.get("SHMTENSOR_SIM_BUILD", ROOT / "build/cpp/sim"))
# Seconds for a case. A GPU may be available for minutes only, so a case that hangs must end soon.
TIMEOUT = {"sim": 110, "gpu": 60}
SHOW_WHERE = "import faulthandler; faulthandler.dump_traceback_later({})\n"


class Machine:
    """A GPU or the simulated driver."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        path = [str(STAND_IN), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.env = {"PYTHONPATH": os.pathsep.join(path), "LATCHES": str(folder)}
        if kind == "sim":
            self.env["SHMTENSOR_LIBCUDA"] = str(SIMULATORS / "libcuda-full.so.1")
            self.env["SHMTENSOR_SIM_DIR"] = str(folder)

    def run(self, code: str, *, timeout: float | None = None, **env: str) -> None:
        """Run a program, which must exit with 0 and print no error; one that hangs prints its stack."""
        seconds = timeout or TIMEOUT[self.kind]
        code = SHOW_WHERE.format(seconds - 5) + textwrap.dedent(code)
        done = run_python(code, timeout=seconds, env=self.env | env)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        assert "shmtensor:" not in done.stderr, done.stderr

    def run_main(
        self, module: str, function: str, *, first: str = "pass", timeout: float | None = None, **env: str
    ) -> None:
        """Run a function as a main program, which spawned children do not run, after a line of code."""
        call = f"from {module} import {function} as f\nif __name__ == '__main__':\n    {first}\n    f()"
        self.run(call, timeout=timeout, **env)


def case(body: Callable[[], None]) -> Any:
    """Make a test that runs the function in a new process, on the machine of the fixture."""
    call = f"from {body.__module__} import {body.__name__} as case\ncase.body()"

    @functools.wraps(body)
    def test(machine: Machine) -> None:
        machine.run(call)

    del test.__wrapped__  # pytest would look for the body's parameters
    test.body = body  # type: ignore[attr-defined]
    return test


def simulated_case(reason: str) -> Callable[[Callable[[], None]], Any]:
    """Make tests like `case` that a GPU cannot run; there they are skipped for the reason."""
    return lambda body: pytest.mark.simulated(reason)(case(body))
