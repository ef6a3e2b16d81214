"""Messages of the manager's protocol, made by hand."""

from __future__ import annotations

import re
import struct
from pathlib import Path

PROTOCOL = (Path(__file__).parents[2] / "csrc/manager/protocol.hpp").read_text()
(VERSION,) = map(int, re.findall(r"kProtocolVersion = (\d+);", PROTOCOL))


def hello(session: str) -> bytes:
    """The first message of a process that wants to join a session."""
    high, low = int(session[:16], 16), int(session[16:], 16)
    start = struct.pack("<IHHQQ", 0x6D747473, VERSION, 1, high, low)
    return (start + struct.pack("<IIIIIIIi", 0xFFFF, 0, 0, 0, 0, 0, 1, 0)).ljust(504, b"\0")
