"""What goes wrong in the background reaches Python's logging, or standard error."""

from __future__ import annotations

import re
import textwrap

import pytest

from tests.helpers.children import importing_tests, run_python

LOGGING = """
    import logging, sys
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s|%(name)s|%(message)s")
"""
# Without descriptors a child gets no slot. Its parent reports that; so does the child, which holds a tensor.
FORK = """
    import os, resource
    import shmtensor as st
    tensor = st.ones(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    if (pid := os.fork()) == 0:
        print("child", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print("parent")
"""
PARENTS = r"cannot assign a slot to a forked child: .*EMFILE"
CHILDS = "shmtensor: a process was forked without a slot"


def run(code: str):
    done = run_python(code, env=importing_tests())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_failures_are_logged_if_logging_is_configured() -> None:
    done = run(LOGGING + FORK)
    logged = [line for line in done.stdout.splitlines() if "|" in line]
    assert len(logged) == 1, "the child logs nothing that its parent logs"
    assert re.match(rf"ERROR\|shmtensor\|{PARENTS}", logged[0])
    assert done.stderr.startswith(CHILDS), "the fork handler of a child cannot log"
    assert done.stderr.count("\n") == 1


def test_reports_are_logged_while_a_function_without_builtins_runs() -> None:
    """The functions of a named tuple are such ones."""
    in_thread = LOGGING + "    def fork():\n" + textwrap.indent(FORK, "    ")
    done = run(
        in_thread
        + """
        ended.append(True)
    import threading
    ended = []
    loop = eval("lambda items: [None for _ in items]", {"__builtins__": {}})
    threading.Thread(target=fork).start()
    loop(iter(ended.__len__, 1))
    """
    )
    assert re.search(rf"ERROR\|shmtensor\|{PARENTS}", done.stdout)


@pytest.mark.thorough
@pytest.mark.parametrize("imported", ["", "import logging\n"], ids=["not_imported", "not_configured"])
def test_failures_are_written_if_logging_is_not_configured(imported) -> None:
    done = run(f"    {imported}" + FORK)
    lines = sorted(done.stderr.splitlines())
    assert len(lines) == 2
    assert lines[0].startswith(CHILDS)
    assert re.match(f"shmtensor: {PARENTS}", lines[1])
    assert sorted(done.stdout.split()) == ["child", "parent"]


def test_program_can_silence_the_logger() -> None:
    done = run(
        "    import logging\n    logging.getLogger('shmtensor').addHandler(logging.NullHandler())\n" + FORK
    )
    assert done.stderr.startswith(CHILDS)
    assert done.stderr.count("\n") == 1


KILL = """
    import shmtensor as st
    from tests.helpers.children import kill_manager_of
    tensor = st.ones(3)
    session = st.stats()["session"]
    kill_manager_of(session)
    st.stats()
    print(session)
"""


def test_replaced_manager_is_logged_once() -> None:
    done = run(LOGGING + KILL + "    st.stats()\n    st.gc()\n")
    *logged, session = done.stdout.splitlines()
    assert logged == [f"WARNING|shmtensor|the manager of session {session} has ended; another one took over"]
    assert not done.stderr


def test_events_are_not_written_to_standard_error() -> None:
    assert not run(KILL).stderr


def test_replaced_worker_of_a_pool_is_logged() -> None:
    done = run(
        LOGGING
        + """
    import os, signal
    import shmtensor.multiprocessing as mp
    with mp.get_context("fork").Pool(1) as pool:
        pid = pool.apply(os.getpid)
        try:
            pool.apply(os.kill, (pid, signal.SIGKILL))
        except mp.WorkerLost:
            lost = pid
    print(lost)  # not before: the next worker, which is forked at any time, would write it, too
    """
    )
    # The thread that replaces the worker logs it after the task has failed.
    pid, event = sorted(done.stdout.splitlines())
    assert event == f"WARNING|shmtensor|worker {pid} of a pool ended with exit code -9; it is replaced"


RAISING = """
    import logging
    class Handler(logging.Handler):
        def emit(self, record):
            raise {error}
    logging.getLogger("shmtensor").addHandler(Handler())
"""


def test_error_of_a_handler_does_not_reach_the_program() -> None:
    done = run_python(RAISING.format(error="OSError('no disk')") + KILL + FORK, env=importing_tests())
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("OSError: no disk") == 2
    assert re.search(f"shmtensor: {PARENTS}", done.stderr), "a failure is not lost"


def test_interruption_of_a_handler_reaches_the_program() -> None:
    done = run(
        RAISING.format(error="KeyboardInterrupt")
        + """
    import shmtensor as st
    from tests.helpers.children import kill_manager_of
    tensor = st.ones(3)
    kill_manager_of(st.stats()["session"])
    try:
        st.stats()
        print("after")
    except KeyboardInterrupt:
        print("interrupted")
    """
    )
    assert done.stdout.split() == ["interrupted"]
