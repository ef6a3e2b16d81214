"""GPU memory that stays when the last process of its session has ended."""

from __future__ import annotations

import pytest

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
