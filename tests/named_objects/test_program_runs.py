"""Workers of one program meet in one session, also if their parent never used shmtensor."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import shmtensor as st
from tests.helpers.children import (
    clean_environment,
    importing_tests,
    program_beside,
    run_beside,
    run_command,
    run_python,
)

WAYS = [
    ("fork", "fork"),
    ("renamed", "fork"),
    *((how, method) for how in ("Process", "Pool", "nested") for method in ("fork", "spawn", "forkserver")),
    ("executor", "fork"),
    ("executor", "spawn"),
]


def sessions(how: str, method: str, *parent: str) -> set[str]:
    """Return the different lines of the workers."""
    done = run_beside(__file__, "two_workers", how, method, *parent)
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" not in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 2, done.stderr
    return set(lines)


@pytest.mark.thorough
@pytest.mark.parametrize(("how", "method"), WAYS)
def test_workers_build_once_though_parent_has_no_session(how, method) -> None:
    """Regression: each built in a session of its own."""
    assert len(sessions(how, method)) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_parent_joins_the_session_of_its_workers(method) -> None:
    found = sessions("Process", method, "parent")
    assert len({line.split()[1] for line in found}) == 1


@pytest.mark.thorough
def test_runs_of_a_program_have_sessions_of_their_own() -> None:
    runs = [sessions("fork", "fork").pop() for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        runs += pool.map(lambda _: sessions("Pool", "spawn").pop(), range(2))
    assert len({run.split()[1] for run in runs}) == 4


def test_program_that_another_executes_has_a_session_of_its_own() -> None:
    program = "import shmtensor as st; st.ones(1); print(st.stats()['session'])"
    outputs = {run_python(program).stdout for _ in range(2)}
    assert len(outputs | {f"{st.stats()['session']}\n"}) == 3


SIBLING = """
    import warnings
    import shmtensor as st
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            st.once("big", lambda: 5)
            st.unpublish("big")
    print(len(caught), *(warning.message for warning in caught))
    print(*{warning.filename for warning in caught})
"""


@pytest.fixture
def other_program():
    """A Python program that this one executes, too."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        yield
        other.communicate(b"\n")


@pytest.mark.usefixtures("other_program")
def test_sibling_that_cannot_find_the_others_warns_once() -> None:
    count, text = run_python(SIBLING).stdout.split(" ", 1)
    assert count == "1"
    assert "SHMTENSOR_SESSION" in text
    assert text.endswith("\n<string>\n"), "the warning names the line of the caller"


def test_program_that_another_executes_alone_does_not_warn() -> None:
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    done = run_python(parent, arguments=(textwrap.dedent(SIBLING),))
    assert done.stdout.startswith("0\n"), done


@pytest.mark.usefixtures("other_program")
@pytest.mark.parametrize("env", [{"SHMTENSOR_SESSION": "test_program_runs"}, {"PMI_JOBID": "17"}])
def test_sibling_with_a_named_session_does_not_warn(env) -> None:
    assert run_python(SIBLING, env=env).stdout.startswith("0\n")


def test_program_that_a_shell_starts_does_not_warn() -> None:
    command = f"{sys.executable} -c '{textwrap.dedent(SIBLING)}'; true"  # with `; true`, the shell waits
    done = subprocess.run(
        ["sh", "-c", command], env=clean_environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("0\n"), done.stdout


PROXY = """
    for rank in 0 1; do
        PMI_RANK=$rank sh -c '"$@"; true' sh "$@" $rank &
    done
    wait
"""


@pytest.mark.thorough
def test_ranks_below_a_proxy_of_mpich_meet(tmp_path) -> None:
    """MPICH gives them no variable that names the run; a shell is between the proxy and each rank."""
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.symlink_to("/bin/sh")
    rank = [sys.executable, str(program_beside(__file__, "two_workers")), "rank"]
    command = [str(proxy), "-c", PROXY, "sh", *rank]
    with ThreadPoolExecutor(2) as pool:
        runs = [
            done.stdout.splitlines()
            for done in pool.map(partial(run_command, env=importing_tests()), [command] * 2)
        ]
    assert [len(lines) for lines in runs] == [2, 2]
    assert [len(set(lines)) for lines in runs] == [1, 1], "the ranks of a run have one builder"
    assert runs[0] != runs[1]
