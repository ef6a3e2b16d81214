"""The command top: frames for people and programs, and the live screen on a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

import shmtensor as st
from shmtensor.cli import top
from shmtensor.cli._rates import Rates
from tests.cli.running import fail, run
from tests.cli.test_json import documented, found
from tests.helpers.children import clean_environment, kill_manager_of, manager_pids
from tests.helpers.terminals import terminal

TOP = ("-m", "shmtensor", "top", "--interval", "0.05")


def test_one_frame(capsys, session) -> None:
    tensor = st.ones(8 << 20, "u1")
    queue = st.Queue(maxsize=77, label="of the test")
    queue.put(1)
    st.publish("a published name", queue)
    code, text = run(capsys, "top", "--once")
    assert code == 0
    for part in (
        session,
        str(os.getpid()),
        "of which shared tensors",
        "77",
        "live",
        "strategy",
        "of the test",
        "a published name",
    ):
        assert part in text, part
    assert "put/s" not in text, "one frame has no rates"
    st.unpublish("a published name")
    same = run(capsys, "top")[1]
    assert same.split("\n")[1].split() == text.split("\n")[1].split(), "as without a terminal"
    assert tensor.nbytes == 8 << 20


def test_json(capsys, session) -> None:
    tensor = st.ones(8 << 20, "u1")
    code, text = run(capsys, "top", "--json", str(os.getpid()))
    assert code == 0
    seen = json.loads(text)
    expected = documented("JSON of top")
    assert found(seen["processes"], "processes[].") == expected
    (mine,) = [one for one in seen["processes"] if one["pid"] == os.getpid()]
    assert tensor.nbytes <= mine["tensors"] <= mine["rss"]
    (same,) = [one for one in seen["sessions"] if one["session"] == session]
    assert {key.partition("[")[0] for key in documented("JSON of ls")} == set(same)


def test_only_the_given_processes_and_their_sessions(capsys, session) -> None:
    alone = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=clean_environment()
    )
    code, text = run(capsys, "top", "--once", str(alone.pid))
    assert code == 0
    assert str(alone.pid) in text
    assert session not in text
    alone.communicate(b"\n", timeout=30)
    assert fail(capsys, "top", "999999999") == (1, "no process 999999999\n")


MEMBER = """
    import sys
    import shmtensor as st
    tensor = st.ones(3)
    before = st.stats()
    print(before["session"], flush=True)
    sys.stdin.read(1)
    assert st.stats() == before
    print("the same", flush=True)
    sys.stdin.read(1)
"""


@pytest.fixture
def start_member() -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    """Return a function that starts a program with a session, and returns both."""
    started = []

    def start() -> tuple[subprocess.Popen[str], str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(MEMBER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=clean_environment(),
            )
        )
        return started[-1], started[-1].stdout.readline().strip()

    yield start
    for member in started:
        member.kill()
        member.communicate()


@pytest.mark.thorough
def test_observed_process_does_nothing_for_top(capsys, start_member) -> None:
    """It is stopped meanwhile; top takes no slot and starts no manager."""
    member, observed = start_member()
    (pid,) = manager_pids(observed)
    member.send_signal(signal.SIGSTOP)
    for _ in range(3):
        text = run(capsys, "top", "--once")[1]
        assert observed in text
        assert str(member.pid) in text
    member.send_signal(signal.SIGCONT)
    member.stdin.write("x")
    member.stdin.flush()
    assert member.stdout.readline() == "the same\n"
    assert manager_pids(observed) == [pid]


@pytest.mark.thorough
def test_manager_that_does_not_answer_is_reported(capsys, start_member) -> None:
    """Regression: its session was left out silently."""
    member, observed = start_member()
    (manager,) = manager_pids(observed)
    os.kill(manager, signal.SIGSTOP)
    try:
        code, text = fail(capsys, "ls", observed)
        assert code == 1
        assert text.startswith(f"the manager of session {observed} did not answer")
        assert text.count("\n") == 1
        assert text in run(capsys, "top", "--once", str(member.pid))[1]
        assert fail(capsys, "gc", observed) == (1, text)
    finally:
        os.kill(manager, signal.SIGCONT)
    assert run(capsys, "ls", observed)[0] == 0


def test_no_manager_is_started_for_a_session_without_one(capsys, session) -> None:
    kill_manager_of(session)
    assert session not in run(capsys, "top", "--once")[1]
    assert manager_pids(session) == []
    st.stats()
    assert session in run(capsys, "top", "--once")[1]


@pytest.mark.thorough
def test_screen_shows_queues_with_rates_and_ends_by_q(session) -> None:
    queue = st.Queue(maxsize=1234)
    with terminal(*TOP, str(os.getpid())) as screen:
        screen.wait_for("1234")
        for _ in range(5):
            queue.put(1)
        row = r"\d+/\d+ +test_top\.py:\d+ +open +5 +1234 +45 B +none +5 +\d"
        screen.wait_for(rf"put/s +taken/s[^\n]*\n *{row}")
        assert "\x1b[?1049h" in screen.printed
        assert session in screen.text()
        screen.press("x")  # without effect
        screen.wait_for("1234")
        screen.press("q")
        assert screen.end() == 0
        assert screen.is_restored()
    assert queue.qsize() == 5


@pytest.mark.thorough
def test_each_process_takes_one_line_of_a_narrow_screen(start_member) -> None:
    first, second = (start_member()[0].pid for _ in range(2))
    with terminal(*TOP, str(first), str(second), columns=80) as screen:
        screen.wait_for(rf"PID[^\n]*\n{first} [^\n]*\n{second} [^\n]*\n")


@pytest.mark.parametrize(("how", "status"), [("\x03", 0), (signal.SIGTERM, 143)], ids=["ctrl_c", "sigterm"])
def test_screen_is_restored(session, how, status) -> None:
    with terminal(*TOP, str(os.getpid())) as screen:  # the sessions of others may fill the screen
        screen.wait_for(session)
        if isinstance(how, str):
            screen.press(how)
        else:
            screen.process.send_signal(how)
        assert screen.end() == status
        assert screen.is_restored()
        assert "Traceback" not in screen.text()


@pytest.mark.thorough
def test_ends_of_processes_and_sessions_are_shown(start_member) -> None:
    """Processes are killed while they are read."""
    with terminal(*TOP, "--interval", "0") as screen:
        for _ in range(3):
            members = [start_member() for _ in range(2)]
            screen.wait_for(members[1][1])
            for member, _ in members:
                member.kill()
                member.wait()
        screen.press("q")
        assert screen.end() == 0
        assert "Traceback" not in screen.text()


def test_screen_of_a_process_ends_with_it() -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=clean_environment()
    )
    with terminal(*TOP, str(victim.pid)) as screen:
        screen.wait_for(str(victim.pid))
        victim.communicate(b"\n", timeout=30)
        assert screen.end() == 1
        assert screen.text().endswith(f"no process {victim.pid}\r\n")
        assert screen.is_restored()


def test_dumb_terminal_gets_one_frame() -> None:
    """Regression: nothing was printed, and the command ran on."""
    with terminal(*TOP, str(os.getpid()), TERM="dumb") as screen:
        assert screen.end() == 0
        assert "of which shared tensors" in screen.text()
        assert "\x1b" not in screen.printed


@pytest.mark.thorough
def test_live_screen_without_rich_is_one_clear_error() -> None:
    program = """
        import sys
        sys.modules["rich"] = None
        import importlib.util
        importlib.util.find_spec = lambda name: None
        from shmtensor.cli import main
        sys.exit(main(["top", *sys.argv[1:]]))
    """
    with terminal("-c", textwrap.dedent(program)) as screen:
        assert screen.end() == 2
        assert screen.text().strip() == (
            "the live screen needs rich: pip install rich; --once prints one frame without it"
        )
    with terminal("-c", textwrap.dedent(program), "--once") as screen:
        assert screen.end() == 0
        assert "of which shared tensors" in screen.text()


@pytest.mark.parametrize("command", ["ls", "top"])
def test_words_of_other_programs_do_not_control_the_terminal(command, capsys, session) -> None:
    st.publish("red \x1b[31m [bold]name\n", 1)
    code, text = run(capsys, command, session if command == "ls" else "--once")
    assert code == 0
    assert "\x1b" not in text
    if command == "ls":
        assert "red \ufffd[31m [bold]name\ufffd" in text
    st.unpublish("red \x1b[31m [bold]name\n")


def test_rates(monkeypatch) -> None:
    now = iter([10.0, 12.0, 13.0, 14.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    queue = {"arena": 1, "block": 2, "put": 100, "messages": 10}
    rates = Rates()

    def observe(**changes: int) -> tuple[str, str]:
        rates.begin()
        return rates.of("a session", queue | changes)

    assert observe() == ("", "")
    assert observe(put=105, messages=15) == ("2.5", "0")
    assert observe(put=4105, messages=0) == ("4,000", "4,015")
    assert observe(put=3, messages=1) == ("", ""), "another queue is in the block"


def test_process_that_ended_after_the_observation_is_left_out(monkeypatch, capsys, start_member) -> None:
    member, observed = start_member()
    seen = top.observe_sessions([])
    (one,) = [one for one in seen.seen if one["session"] == observed]
    member.kill()
    member.wait()
    monkeypatch.setattr(top, "observe_sessions", lambda _: seen._replace(seen=[one]))
    code, text = run(capsys, "top", "--once")
    assert code == 0
    assert text.startswith("0 processes, 1 session; ")
    assert json.loads(run(capsys, "top", "--json")[1])["processes"] == []
