"""Programs as people write them give the same with the drop-in as with the standard library."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ordinary.program import METHODS, PROGRAMS, Program, changed

RUNS = [
    pytest.param(
        program,
        method,
        executor,
        id=f"{program.name}-{method}" + executor * "-executor",
        marks=[pytest.mark.thorough] if method != program.methods[0] else [],
    )
    for program in PROGRAMS
    for method in program.methods
    for executor in ([False, True] if program.has_executor else [False])
]


@pytest.mark.parametrize(("program", "method", "executor"), RUNS)
def test_program(program: Program, method: str, executor: bool, tmp_path: Path) -> None:
    if missing := [module for module in program.needs if find_spec(module) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    ours = program.run_drop_in(method, tmp_path, executor=executor)
    assert ours.returncode == 0, ours.stderr
    if not program.is_compared:
        assert ours.stdout == program.expected, ours.stderr
        return
    standard = program.run_standard(method)
    assert (standard.returncode, ours.stdout) == (0, standard.stdout), standard.stderr + ours.stderr
    assert standard.stderr or not ours.stderr, ours.stderr


def test_every_program_can_fail() -> None:
    for program in PROGRAMS:
        assert set(program.methods) <= set(METHODS), program.name
        assert changed(program.text) != program.text, f"{program.name} does not import multiprocessing"
        assert "sys.argv[1]" in program.text, f"{program.name} does not take its start method"
        assert bool(program.expected) != program.is_compared, f"{program.name}: compared, or lines '# > '"
