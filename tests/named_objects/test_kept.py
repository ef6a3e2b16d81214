"""Objects that stay when the last process of their session has ended."""

from __future__ import annotations

import tempfile

import pytest

import shmtensor as st
from tests.helpers.children import (
    await_end_of_manager,
    importing_tests,
    kill_manager_of,
    manager_pid,
    output,
    run_beside,
    run_python,
)
from tests.helpers.kept_sessions import ATTACH, KeptSession, kept_session
from tests.helpers.leaks import shm_names

TOTAL = "import shmtensor as st; print(st.attach('weights').numpy().sum())"
SUM = f"{4e5 * 1.5 + 15 + 1000}\n"


@pytest.fixture
def session(request):
    with kept_session(request.node.name) as kept:
        yield kept


def engine(session: KeptSession, *arguments: str, **env: str) -> str:
    done = run_beside(__file__, "engine", *arguments, env=session.env | env)
    assert done.returncode == -9, done.stderr
    return done.stdout


def test_killed_engine_has_its_weights_again(session, strategy) -> None:
    env = {"SHMTENSOR_SHARING_STRATEGY": strategy}
    assert engine(session, **env) == f"loaded {SUM}"
    for _ in range(2):
        session.wait_until_left("weights")
        assert engine(session, **env) == f"attached {SUM}"
    blocks = session.seen()["blocks"]
    session.wait_until_left("weights")
    assert 0 < session.seen()["blocks"] <= blocks, "what the engine had beside them is freed"
    assert bool(shm_names(session.id)) == (strategy == "file_system")
    assert session.names() == {"weights": True}


def test_object_is_gone_when_its_time_is_over(session) -> None:
    assert engine(session, "0.3") == f"loaded {SUM}"
    await_end_of_manager(session.id)
    assert engine(session, "0.3") == f"loaded {SUM}"


def test_time_runs_without_a_process_only(session) -> None:
    output(
        session.python(
            """
        import time
        import shmtensor as st
        from tests.helpers.children import wait_until
        st.publish("weights", 1, keep=0.01)
        time.sleep(0.05)
        assert st.attach("weights") == 1
        (seen,) = st._core.observe(st.stats()["session"])["names"]
        assert (seen["keep"], seen["left"]) == (0.01, None)
        st.publish("longer", st.ones(1000), keep=100)
    """,
            **importing_tests(),
        )
    )
    session.wait_until_left("longer")
    (seen,) = session.seen()["names"]
    assert 8000 <= seen["bytes"] < 9000
    assert 90 < seen["left"] < 100
    assert seen["keep"] == 100


def test_each_name_is_kept_and_dropped_alone(session) -> None:
    output(
        session.python("""
        import shmtensor as st
        shared = st.ones(1 << 20)
        st.publish("one", shared, keep=True)
        st.publish("two", [shared, st.ones(1 << 20)], keep=True)
        st.publish("none", [shared, st.ones(1 << 20)])
        st.publish("replaced", st.ones(1 << 20), keep=True)
        st.publish("replaced", st.ones(1 << 20))
    """)
    )
    session.wait_until_left("one", "two")

    def mebibytes() -> int:
        return session.seen()["bytes_live"] >> 20

    assert mebibytes() == 16
    assert {one["name"]: one["bytes"] >> 20 for one in session.seen()["names"]} == {"one": 8, "two": 16}
    output(session.command("drop", session.name, "two"))
    session.wait_until_left("one")
    assert mebibytes() == 8


def test_unpublish_ends_the_session(session) -> None:
    engine(session)
    assert output(session.python("import shmtensor as st; print(st.unpublish('weights'))")) == "True\n"
    await_end_of_manager(session.id)
    assert "NotPublishedError" in session.python(ATTACH).stderr


def test_killed_manager_loses_what_is_kept(session) -> None:
    engine(session)
    session.wait_until_left("weights")
    kill_manager_of(session.id)
    done = session.python(ATTACH)
    assert "NotPublishedError" in done.stderr
    assert "lost if the session's manager was killed" in done.stderr
    assert engine(session) == f"loaded {SUM}"


def test_manager_that_takes_over_keeps_it(session) -> None:
    output(
        session.python(
            """
        import shmtensor as st
        from tests.helpers.children import kill_manager_of
        st.publish("weights", st.ones(1000), keep=True)
        mine = st.attach("weights")
        kill_manager_of(st.stats()["session"])
        st.publish("not kept", 1)
    """,
            **importing_tests(),
        )
    )
    session.wait_until_left("weights")
    assert (
        output(session.python("import shmtensor as st; print(st.attach('weights').numpy().sum())"))
        == "1000.0\n"
    )


def test_end_of_a_process_that_only_attached_keeps_it(session) -> None:
    """It imports no `multiprocessing`, whose exit functions another process has for this."""
    output(session.python("import shmtensor as st; st.publish('weights', st.ones(1000), keep=True)"))
    session.wait_until_left("weights")
    done = session.python(
        """
        import os, select, signal, sys
        import shmtensor as st
        mine = st.attach("weights")
        manager = os.pidfd_open(int(sys.argv[1]))
        signal.pidfd_send_signal(manager, signal.SIGKILL)
        select.select([manager], [], [])  # until it has ended
        assert "multiprocessing" not in sys.modules
        """,
        str(manager_pid(session.id)),
    )
    assert not output(done)
    session.wait_until_left("weights")
    assert output(session.python(TOTAL)) == "1000.0\n"


OLD, NEW = False, True


@pytest.mark.parametrize(
    ("point", "version"),
    [
        ("name.before_handle", OLD),
        ("name.before_publish", OLD),
        ("name.published", NEW),
        pytest.param("name.before_erase", NEW, marks=pytest.mark.thorough),
        pytest.param("name.before_release", NEW, marks=pytest.mark.thorough),
    ],
)
def test_engine_killed_while_it_publishes_leaves_one_object(session, point, version) -> None:
    engine(session)
    session.wait_until_left("weights")
    blocks = session.seen()["blocks"]
    assert engine(session, "1", point) == f"attached {SUM}"
    session.wait_until_left("weights")
    assert session.seen()["blocks"] == blocks
    assert session.seen()["names"][0]["stage"] == "published"
    code = "import shmtensor as st; print('version' in st.attach('weights'))"
    assert output(session.python(code)) == f"{version}\n"


def test_forked_child_publishes_for_later_programs(session) -> None:
    output(
        session.python("""
        import os
        import shmtensor as st
        mine = st.ones(1000)
        if os.fork() == 0:
            st.publish("weights", mine, keep=True)
            os._exit(0)
        os.wait()
    """)
    )
    session.wait_until_left("weights")
    assert (
        output(session.python("import shmtensor as st; print(st.attach('weights').numpy().sum())"))
        == "1000.0\n"
    )


ONCE = "import shmtensor as st; print(st.once('weights', lambda: [1], keep=True), st.once('x', lambda: 1))"


def test_once_keeps_what_it_builds_but_no_error(session) -> None:
    assert output(session.python(ONCE)) == "[1] 1\n"
    failed = session.python("import shmtensor as st; st.once('bad', lambda: 1 / 0, keep=True)")
    assert "ZeroDivisionError" in failed.stderr
    session.wait_until_left("weights")
    assert output(session.python(ONCE.replace("[1]", "[2]"))) == "[1] 1\n"


def test_budget_limits_what_is_kept(session) -> None:
    done = session.python(
        """
        import pytest
        import shmtensor as st
        st.publish("first", st.ones(10_000), keep=True)
        st.publish("free", st.ones(100_000))
        with pytest.raises(st.OutOfSharedMemory, match="'second', of 8.*KEEP_BYTES is 100000, .* 8"):
            st.publish("second", st.ones(10_000), keep=True)
        with pytest.raises(st.NotPublishedError):
            st.attach("second")
        st.publish("first", st.ones(10_100), keep=True)  # in place of the other
        before = st.stats()["blocks"]
        with pytest.raises(st.OutOfSharedMemory):
            st.once("second", lambda: st.ones(10_000), keep=True)
        st.unpublish("second")
        assert st.stats()["blocks"] == before
        st.unpublish("first")
        """,
        SHMTENSOR_KEEP_BYTES="100000",
    )
    output(done)
    bad = session.python("import shmtensor as st; st.publish('x', 1, keep=True)", SHMTENSOR_KEEP_BYTES="1 GB")
    assert "ValueError: SHMTENSOR_KEEP_BYTES must be a number of bytes, digits only: '1 GB'" in bad.stderr


UNNAMED = "import shmtensor as st; st.publish('x', 1, keep=5)"
PARENT = (
    f"import subprocess as s, sys, shmtensor as st; st.ones(1); s.run([sys.executable, '-c', {UNNAMED!r}])"
)


@pytest.mark.parametrize("program", [UNNAMED, PARENT], ids=["first", "its child"])
@pytest.mark.parametrize("env", [{}, {"PMI_JOBID": "test_kept"}], ids=["process", "job"])
def test_session_that_no_later_run_finds_keeps_nothing(program, env) -> None:
    done = run_python(program, env=env)
    assert "SessionError: cannot keep 'x': no later program would find it" in done.stderr
    assert "SHMTENSOR_SESSION" in done.stderr


def test_runtime_directory_names_a_session() -> None:
    with tempfile.TemporaryDirectory() as folder:  # whose path is short
        done = run_python(UNNAMED + "; st.unpublish('x')", env={"SHMTENSOR_RUNTIME_DIR": folder})
    assert output(done) == ""


@pytest.mark.parametrize("keep", [-1, float("nan")])
def test_invalid_times_are_rejected(keep) -> None:
    with pytest.raises(ValueError, match="keep must be at least 0"):
        st.publish("x", 1, keep=keep)
    with pytest.raises(TypeError, match="keep must be a number, not 'yes'"):
        st.publish("x", 1, keep="yes")
