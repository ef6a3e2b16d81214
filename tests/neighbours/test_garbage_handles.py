"""Bytes that begin as a handle does, in messages that cannot be unpickled, or that are forged."""

from __future__ import annotations

import pytest

from tests.helpers.children import await_end_of_session, importing_tests, run_python

PROGRAM = """
    import os, pickle, sys
    import shmtensor as st
    from multiprocessing.reduction import ForkingPickler
    from shmtensor.multiprocessing._pickles import loads_or_release
    from tests.helpers.children import kill_manager_of, managers

    class Bad:
        def __reduce__(self):
            return int, ("x",)

    def managers_started():
        return sum(arguments[1] in ids for arguments in managers().values())

    handles = [b"\\1\\0\\0\\0" + os.urandom(60) for _ in range(50)]
    ids = {(h[24:32][::-1] + h[32:40][::-1]).hex() for h in handles}
"""

UNREADABLE = """
    tensor = st.ones(1000)
    content = bytes(ForkingPickler.dumps([Bad(), *handles, tensor]))
    assert st.stats()["in_flight"] == 1
    try:
        loads_or_release(content)
    except ValueError:
        pass
    assert managers_started() == 0
    assert st.stats()["in_flight"] == 0, "what was a handle is cancelled"
    print(st.stats()["session"])
"""

LOADED = """
    from shmtensor.reducers import rebuild_storage

    tensor = st.full(1000, 7)
    for handle in handles:
        try:
            rebuild_storage(handle)
        except st.StaleHandleError as error:
            assert "has ended" in str(error), error
        else:
            raise AssertionError("it was loaded")
        assert managers_started() == 0
    print(st.stats()["session"])
"""

# A session whose manager was killed lives: the reader of its handle starts the next manager.
LIVING = """
    tensor = st.full(1000, 7)
    session = st.stats()["session"]
    message = bytes(ForkingPickler.dumps(tensor))
    kill_manager_of(session)
    import subprocess
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).numpy().sum())"
    environment = {key: value for key, value in os.environ.items() if key != "SHMTENSOR_SESSION"}
    done = subprocess.run([sys.executable, "-c", code], input=message, env=environment, capture_output=True)
    assert done.stdout == b"7000\\n", done
    print(session)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("case", [UNREADABLE, LOADED, LIVING], ids=["unreadable", "loaded", "living session"])
def test_only_living_sessions_get_a_manager(case) -> None:
    """A manager was started for each, hundreds at a time."""
    await_end_of_session(run_python(PROGRAM + case, env=importing_tests()))
