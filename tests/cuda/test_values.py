"""Values in GPU memory: those that stay when the last process of their session has ended, and the newest."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import workers
from tests.cuda.harness import case
from tests.cuda.test_own_memory import nothing_is_left
from tests.cuda.workers import Pair
from tests.helpers.kept_sessions import kept_session

OWN = """
    import shmtensor as st
    st.publish("weights", {"w": st.full(1000, 3, device="cuda"), "step": 5}, keep=True)
    st.publish("not kept", st.ones(1000, device="cuda"))
"""
OTHERS = """
    import numpy as np, pytest
    import shmtensor as st
    from tests.cuda.device import Array
    theirs = st.asarray(Array(np.full(1000, 3)))
    with pytest.raises(ValueError, match="GPU memory of another library, .* publish clones"):
        st.publish("weights", {"w": theirs, "step": 5}, keep=True)
    st.publish("weights", {"w": theirs.clone(), "step": 5}, keep=True)
    st.publish("not kept", theirs)
"""
ATTACH = """
    import shmtensor as st
    found = st.attach("weights")
    assert found["step"] == 5
    assert found["w"].device == "cuda:0"
    assert found["w"].tolist() == [3] * 1000
"""


@pytest.mark.parametrize("publish", [OWN, OTHERS], ids=["own", "another library's"])
def test_own_memory_is_kept(machine, publish) -> None:
    with kept_session("gpu", **machine.env) as session:
        for program in publish, ATTACH, ATTACH:
            machine.run(program, **session.env)
            session.wait_until_left("weights")


def test_command_does_not_keep_memory_of_another_library(machine) -> None:
    with kept_session("gpu", **machine.env) as session:
        machine.run(
            OTHERS
            + """
    from shmtensor import named_objects
    with pytest.raises(ValueError, match="GPU memory of another library"):
        named_objects.keep("not kept", 5)
""",
            **session.env,
        )


@case
def test_newest_value_is_on_the_device() -> None:
    latest = st.Latest({"w": st.full(4, 1, device="cuda")})
    pair = Pair(workers.follow)
    pair.put(latest)
    assert pair.get() == (1, "cuda:0", [1] * 4)
    with latest.next() as value:
        assert value["w"].device == "cuda:0"
        value["w"].copy_(np.full(4, 2))
    assert pair.get() == (2, "cuda:0", [2] * 4)
    places = {latest.get()["w"].data_ptr()}
    for number in range(3, 8):
        with latest.next() as value:
            value["w"].copy_(np.full(4, number))
        assert pair.get() == (number, "cuda:0", [number] * 4)
        places.add(value["w"].data_ptr())
        del value
    assert len(places) < 7, "memory of values that are not used is used again"
    latest.set(None)
    pair.end()
    latest.get()
    del latest
    assert nothing_is_left()
