"""What a frozen program needs of this package; tests/integrations/test_pyinstaller.py freezes one."""

from __future__ import annotations

import multiprocessing
import sys

import pytest

import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import _frozen
from shmtensor.multiprocessing._worker_server import client, server


def test_freeze_support_is_looked_up_when_it_is_called(monkeypatch) -> None:
    """PyInstaller replaces it at the start of the program."""
    called: list[str] = []
    monkeypatch.setattr(multiprocessing, "freeze_support", lambda: called.append("theirs"))
    mp.freeze_support()
    assert called == ["theirs"]


def test_program_that_was_started_as_the_server_becomes_it(monkeypatch, capsys) -> None:
    code = client._ENTRY.format(path=sys.path, fd=99, names=("json",))
    monkeypatch.setattr(sys, "argv", ["program", "-B", "-c", code])
    assert not _frozen.is_server()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(RuntimeError, match=r"freeze_support\(\) first in its main guard"):
        client._Server(())
    monkeypatch.setattr(server, "main", print)
    with pytest.raises(SystemExit):
        mp.freeze_support()
    assert capsys.readouterr().out == "99 ('json',)\n"


def test_other_programs_with_that_option_are_not_the_server(monkeypatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    for arguments in ([], ["-c"], ["-c", "from multiprocessing.resource_tracker import main;main(4)"]):
        monkeypatch.setattr(sys, "argv", ["program", *arguments])
        assert not _frozen.is_server()
