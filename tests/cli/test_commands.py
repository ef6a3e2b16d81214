"""The commands ls, gc and doctor: tables, JSON; all commands: output without a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import shmtensor as st
from shmtensor import _core
from shmtensor.cli import _arguments, main
from tests.cli.running import fail, run
from tests.helpers.children import clean_environment, output, run_command, run_python
from tests.helpers.leaks import shm_names


@pytest.mark.thorough
def test_ls_lists_everything(capsys, session) -> None:
    tensor = st.ones(1 << 20, "u1")
    message = ForkingPickler.dumps(tensor)
    st.publish("a name", tensor)
    code, text = run(capsys, "ls", "--json", session)
    assert code == 0
    (seen,) = json.loads(text)
    assert seen["session"] == session
    assert os.getpid() in [process["pid"] for process in seen["processes"]]
    (mine,) = [one for one in seen["processes"] if one["pid"] == os.getpid()]
    assert mine["slot"] == st.stats()["slot"]
    assert "python" in mine["command"]
    assert sum(arena["bytes_live"] for arena in seen["arenas"]) == seen["bytes_live"] >= 1 << 20
    assert {arena["owner"] for arena in seen["arenas"]} >= {mine["slot"]}
    assert sum(arena["bytes_reserved"] for arena in seen["arenas"]) >= seen["bytes_live"]
    (flight,) = [one for one in seen["in_flight"] if one["pid"] == os.getpid()]
    assert flight["messages"] == 1
    assert flight["age"] < 60
    (name,) = [one for one in seen["names"] if one["name"] == "a name"]
    assert (name["stage"], name["pid"]) == ("published", os.getpid())
    code, text = run(capsys, "ls", session[:12])
    assert code == 0
    for part in (session, str(os.getpid()), "a name", "live", "idle", "unread, from", "file_descriptor"):
        assert part in text, part
    st.unpublish("a name")
    st.gc(older_than=0)
    assert len(message) < 500


def test_ls_reports_unknown_session(capsys) -> None:
    missing = 1, f"no session {'f' * 32}\n"
    assert fail(capsys, "ls", "f" * 32) == missing
    assert fail(capsys, "ls", "--json", "f" * 32) == missing
    code, text = run(capsys, "ls", "--json", "f" * 32)
    assert (code, json.loads(text)) == (1, [])
    assert fail(capsys, "ls", "\udcff")[0] == 1, "a name that is not UTF-8"


def test_complaints_need_a_standard_error(capsys, monkeypatch) -> None:
    """Regression: they were printed to standard output, beside the JSON."""
    monkeypatch.setattr(sys, "stderr", None)
    assert run(capsys, "ls", "--json", "f" * 32) == (1, "[]\n")


def test_empty_text_names_no_session(capsys, session, monkeypatch) -> None:
    """Regression: with an unset variable of a script, `gc` cancelled the messages of all sessions."""
    monkeypatch.setattr(_core, "collect_session", None)
    for words in (["ls"], ["ls", "--json"], ["gc", "--older-than", "0"]):
        assert fail(capsys, *words, "") == (1, "no session ''\n")
    assert fail(capsys, "drop", "", "a name") == (1, "no session ''\n")


def test_gc_refuses_the_beginning_of_several_ids(capsys, session, monkeypatch) -> None:
    sessions = [f"ab{digit}" + "0" * 29 for digit in "01"]
    monkeypatch.setattr(_arguments, "find_sessions", lambda: sessions)
    monkeypatch.setattr(_arguments, "observe", lambda one: {"session": one, "name": None, "in_flight": []})
    collected = []
    monkeypatch.setattr(_core, "collect_session", lambda one, _age: collected.append(one) or 1)
    problem = f"several sessions begin with ab: {', '.join(sessions)}\n"
    assert fail(capsys, "gc", "--older-than", "0", "ab") == (1, problem)
    assert not collected
    assert run(capsys, "gc", "--older-than", "0", "ab1")[0] == 0
    assert collected == [sessions[1]]


@pytest.mark.parametrize("words", [["gc"], ["gc", "--older-than", "0"], ["gc", "--dry-run"]])
def test_gc_reports_unknown_session_like_ls(words, capsys, session) -> None:
    """Regression: it printed "nothing to remove", with exit status 0."""
    code, text = fail(capsys, *words, "F" * 32, session)
    assert (code, f"no session {'F' * 32}" in text, f"no session {session}" in text) == (1, True, False)
    assert run(capsys, *words, "--json", "f" * 32)[0] == 1
    assert run(capsys, *words, session.upper())[0] == 0


def test_observing_takes_no_slot_and_keeps_no_session_alive(capsys, session) -> None:
    before = st.stats()["processes"]
    for _ in range(5):
        run(capsys, "ls", session)
    assert st.stats()["processes"] == before


def test_gc_frees_old_messages_but_not_held_blocks(capsys, session) -> None:
    held, named = st.full(100, 3), st.full(100, 4)
    st.publish("stays", named)
    del named
    messages = [ForkingPickler.dumps(st.ones(10)), ForkingPickler.dumps(held)]
    code, text = run(capsys, "gc", "--older-than", "3600", "--json", session)
    assert (code, session in json.loads(text)["messages"]) == (0, False)
    code, text = run(capsys, "gc", "--older-than", "0", "--dry-run", session[:20])
    assert f"would cancel 2 messages of session {session}" in text
    assert st.stats()["in_flight"] == 2, "that was a dry run"
    code, text = run(capsys, "gc", "--older-than", "0", "--json", session)
    assert json.loads(text)["messages"][session] == 2
    assert st.stats()["in_flight"] == 0
    assert (held.numpy() == 3).all()
    assert (st.attach("stays").numpy() == 4).all()
    st.unpublish("stays")
    assert len(messages) == 2
    assert run(capsys, "gc", "--older-than", "0", session)[0] == 0


NAMED = "A run of test_commands"
MESSAGE = """
    import sys
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    message = ForkingPickler.dumps(st.ones(10))
    print(st.stats()["session"], flush=True)
    sys.stdin.read()
    print(st.stats()["in_flight"])
"""


@pytest.fixture
def named():
    """Run a program in a named session, with an unread message."""
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MESSAGE)],
        env=clean_environment(SHMTENSOR_SESSION=NAMED),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield program
    program.kill()
    program.communicate()


def test_session_is_found_and_shown_by_the_text_that_names_it(named, capsys) -> None:
    """Regression: only the hash of the text was known."""
    session = named.stdout.readline().strip()
    code, text = run(capsys, "ls", NAMED)
    assert (code, f"session {session} ({NAMED}): " in text) == (0, True)
    assert json.loads(run(capsys, "ls", "--json", session)[1])[0]["name"] == NAMED
    assert run(capsys, "ls", NAMED.upper())[0] == 1
    assert f"of session {session}" in run(capsys, "gc", "--older-than", "0", NAMED)[1]
    assert named.communicate("", timeout=30)[0] == "0\n"


def test_gc_cancels_messages_of_others_only_if_they_are_named(named, capsys) -> None:
    """Regression: without a session it cancelled messages of all programs of the user."""
    named.stdout.readline()
    for words in ([], ["--dry-run"], ["--all", NAMED]):
        with pytest.raises(SystemExit) as caught:
            main(["gc", "--older-than", "0", *words])
        assert caught.value.code == 2
        assert "--all" in capsys.readouterr().err
    assert run(capsys, "gc", "--older-than", "0", "--all", "--dry-run")[0] == 0
    assert named.communicate("", timeout=30)[0] == "1\n"


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *(("gc", "--older-than", age) for age in ("-1", "nan", "inf", "soon")),
        *(("top", "--interval", interval) for interval in ("-1", "nan", "inf", "soon")),
    ],
)
def test_invalid_numbers_are_rejected(command, option, value, capsys) -> None:
    """Regression: an age of -5 was an "invalid _seconds value"."""
    with pytest.raises(SystemExit) as caught:
        main([command, option, value])
    assert caught.value.code == 2
    errors = capsys.readouterr().err
    assert f"argument {option}: " in errors
    assert errors.endswith(f": '{value}'\n")


def test_doctor_json_matches_text_output(capsys) -> None:
    code, text = run(capsys, "doctor", "--json")
    report = json.loads(text)
    assert report["ok"] == (code == 0)
    assert {finding["name"] for finding in report["findings"]} >= {
        *("kernel", "memfd", "/dev/shm", "huge pages", "Yama", "container", "CUDA driver")
    }
    assert run(capsys, "doctor")[1].count("\n") == len(report["findings"])


@pytest.mark.thorough
@pytest.mark.parametrize("words", [["ls"], ["gc"], ["doctor"], ["top", "--once"]])
def test_commands_write_to_a_pipe(words, alone) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shmtensor", *words],
        check=False,
        env=clean_environment(TERM="dumb", **alone),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout
    assert "\033" not in done.stdout
    assert not done.stderr


def run_into(stdout, words, buffered, alone) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shmtensor", *words],
        check=False,
        env=clean_environment(PYTHONUNBUFFERED=buffered, **alone),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("words", [["ls"], ["doctor"], ["doctor", "--json"], ["top"], ["--help"]])
@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_broken_pipe_on_stdout_is_silent(words, buffered, alone) -> None:
    """Regression: `shmtensor doctor | true` ended with a BrokenPipeError and a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    done = run_into(writer, words, buffered, alone)
    os.close(writer)
    assert done.returncode in (0, 1)
    assert not done.stderr


def test_broken_pipe_inside_a_command_is_reported() -> None:
    done = run_python("""
        import sys
        from shmtensor import cli
        from shmtensor.cli import ls
        def broken(options):
            raise BrokenPipeError("another pipe")
        ls._run = broken
        sys.exit(cli.main(["ls"]))
    """)
    assert done.returncode == 1
    assert done.stderr == "shmtensor: another pipe\n"


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_output_that_cannot_be_written_is_one_line(buffered, alone) -> None:
    """Regression: `shmtensor ls >/dev/full` ended with two tracebacks."""
    with Path("/dev/full").open("w") as full:
        done = run_into(full, ["ls"], buffered, alone)
    assert (done.returncode, done.stderr) == (1, "shmtensor: [Errno 28] No space left on device\n")


def test_directory_that_cannot_be_used_is_one_line() -> None:
    done = run_command(
        [sys.executable, "-m", "shmtensor", "ls"], env={"SHMTENSOR_RUNTIME_DIR": "/proc/version"}
    )
    assert done.returncode == 1
    assert re.fullmatch("shmtensor: SHMTENSOR_RUNTIME_DIR: cannot open .*\n", done.stderr), done.stderr


def test_labels_are_escaped_where_the_terminal_lacks_their_letters() -> None:
    """Regression: UnicodeEncodeError in the middle of the table."""
    program = """
        import sys
        import shmtensor as st
        from shmtensor.cli import main
        queue = st.Queue(label="frames 日本")
        st.publish("日", 1)
        session = st.stats()["session"]
        assert main(["ls", session]) == 0
        sys.exit(main(["drop", session, "日"]))
    """
    done = run_python(program, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert r"frames \u65e5\u672c" in done.stdout
    assert r"dropped '\u65e5' of session" in done.stdout


@pytest.mark.parametrize("strategy", ["file_system"], indirect=True)
def test_gc_frees_orphans_of_dead_session(session, strategy) -> None:
    """Named segments of a session whose processes were all killed are removed; others are kept."""
    program = """
        import os, signal
        import shmtensor as st, shmtensor.multiprocessing as mp
        from tests.helpers.children import manager_pid
        mp.set_sharing_strategy("file_system")
        t = st.ones(1000)
        session = st.stats()["session"]
        print(session, [name for name in os.listdir("/dev/shm") if session in name], flush=True)
        os.kill(manager_pid(session), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    alive = st.ones(1000)
    own = shm_names(session)
    assert own
    dead, names = run_python(program).stdout.strip().split(maxsplit=1)
    assert dead in names
    deadline = time.monotonic() + 60
    while True:
        output(run_python("import sys; from shmtensor.cli import main; sys.exit(main(['gc', '--json']))"))
        if not shm_names(dead):
            break
        assert time.monotonic() < deadline, names
    assert shm_names(session) == own
    assert alive.numpy().sum() == 1000
