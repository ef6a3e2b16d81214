"""A text in SHMTENSOR_SESSION names a session of its user; 32 hexadecimal digits are an id."""

from __future__ import annotations

import os
import re

import pytest

from tests.helpers.children import run_python

PROGRAM = """
    import os, sys
    from shmtensor import _core
    if len(sys.argv) > 1:
        os.setresuid(*[int(sys.argv[1])] * 3)
    print(_core.home_id())
"""


def id_of(name: str, *user: str) -> str:
    done = run_python(PROGRAM, env={"SHMTENSOR_SESSION": name}, arguments=user)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch("[0-9a-f]{32}\n", done.stdout)
    return done.stdout.strip()


@pytest.mark.thorough
def test_text_names_the_same_session_in_all_processes_of_a_user() -> None:
    assert id_of("train") == id_of("train") != id_of("test")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_text_of_two_users_names_two_sessions() -> None:
    """The second user was refused by the first one's manager."""
    assert len({id_of("train"), id_of("train", "12345"), id_of("train", "12346")}) == 3


def test_digits_name_their_session_for_every_user() -> None:
    digits = "0123456789abcdef00000000000000ff"
    assert id_of(digits) == id_of(digits.upper()) == digits
