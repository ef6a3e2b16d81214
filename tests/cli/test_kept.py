"""The commands keep and drop; what ls and doctor show of kept objects."""

from __future__ import annotations

import json
import re

import pytest

from shmtensor.cli import main
from tests.cli.running import run
from tests.helpers.children import await_end_of_manager, output
from tests.helpers.kept_sessions import kept_session

PROGRAM = """
    import subprocess, sys
    import shmtensor as st
    st.publish("weights", st.ones(1 << 17))
    st.publish("other", 1)
    command = "import sys; from shmtensor.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", command, "keep", *sys.argv[1:]],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.returncode, done.stdout.decode().strip())
"""


@pytest.fixture
def session(request):
    with kept_session(request.node.name) as kept:
        yield kept


def keep(session, *words: str) -> str:
    """Return what `shmtensor keep` prints in a program that ends after it."""
    return output(session.python(PROGRAM, *words))


def test_objects_are_kept_and_dropped_by_command(session, capsys) -> None:
    assert keep(session, session.name, "weights") == f"0 keeps 'weights' of session {session.id}\n"
    session.wait_until_left("weights")
    code, text = run(capsys, "ls", session.name)
    assert code == 0
    assert text.startswith(f"session {session.id} ({session.name}): ")
    assert re.search(r"weights +published +gone +\d+ s +1\.0 MiB +until dropped\n", text), text
    done = session.command("drop", session.id[:20], "weights")
    assert output(done) == f"dropped 'weights' of session {session.id}\n"
    await_end_of_manager(session.id)
    done = session.command("drop", session.name, "weights")
    assert (done.returncode, done.stderr) == (1, f"no session {session.name}\n")


def test_ls_shows_how_long_objects_stay(session, capsys) -> None:
    keep(session, session.name, "weights", "--seconds", "90")
    session.wait_until_left("weights")
    (seen,) = json.loads(run(capsys, "ls", "--json", session.id)[1])
    (name,) = seen["names"]
    assert (name["name"], name["bytes"] >> 20, name["keep"]) == ("weights", 1, 90)
    assert 60 < name["left"] < 90
    assert re.search(r" \d\d s more\n", run(capsys, "ls", session.id)[1])


def test_errors_name_session_and_object(session) -> None:
    nothing = f"1 nothing is published under 'nothing' in session {session.id}\n"
    assert keep(session, session.name, "nothing") == nothing
    done = session.command("drop", "f" * 32, "weights")
    assert (done.returncode, done.stderr) == (1, f"no session {'f' * 32}\n")
    with pytest.raises(SystemExit):
        main(["keep", session.name, "weights", "--seconds", "-1"])


def kept_in(report: str) -> tuple[bool, int]:
    (finding,) = (one for one in json.loads(report)["findings"] if one["name"] == "kept")
    return finding["ok"], int(re.search(r"in (\d+) named objects", finding["text"])[1])


def test_doctor_warns_of_more_than_the_budget(session, monkeypatch, capsys) -> None:
    keep(session, session.name, "weights")
    ok, count = kept_in(run(capsys, "doctor", "--json")[1])
    assert ok
    assert count >= 1
    for budget, text in ("1000", "above SHMTENSOR_KEEP_BYTES (1000)"), ("1 GB", "digits only: '1 GB'"):
        monkeypatch.setenv("SHMTENSOR_KEEP_BYTES", budget)
        code, report = run(capsys, "doctor")
        assert code == 1
        (line,) = (line for line in report.splitlines() if "kept: " in line)
        assert line.startswith("WARN")
        assert text in line


def test_keep_checks_the_budget(session) -> None:
    done = session.python(PROGRAM, session.name, "weights", SHMTENSOR_KEEP_BYTES="1000")
    assert "1 cannot keep 'weights', of 1048" in output(done)
    await_end_of_manager(session.id)
