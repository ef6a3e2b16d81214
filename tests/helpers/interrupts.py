"""Calls that a signal handler interrupts at a chosen instruction."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType


class HandlerError(Exception):
    """What the handler of a signal may raise between any two instructions."""


def call_with_interrupt(function: Callable[[], Any], module: ModuleType, instruction: int) -> bool:
    """Raise at that instruction of the module; return False if the call has fewer instructions."""
    passed = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != module.__file__:
            return None
        if not frame.f_trace_opcodes:
            frame.f_trace_opcodes = True
            sys.settrace(trace)  # Python 3.12 reports instructions only after this
        if event == "opcode":
            passed += 1
            if passed == instruction:
                raise HandlerError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except HandlerError:
        pass
    finally:
        sys.settrace(before)
    return passed >= instruction
