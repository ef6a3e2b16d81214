"""Calls that a signal handler interrupts at a chosen instruction."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType, ModuleType


class HandlerError(Exception):
    """What the handler of a signal may raise between any two instructions."""


def call_with_interrupt(function: Callable[[], Any], module: ModuleType, instruction: int) -> bool:
    """Raise at that instruction of the module; return False if the call has fewer instructions."""
    passed = 0
    file = module.__file__

    def pass_one() -> None:
        nonlocal passed
        passed += 1
        if passed == instruction:
            raise HandlerError

    run = _call_monitored if sys.version_info >= (3, 12) else _call_traced
    with suppress(HandlerError):
        run(function, file, pass_one)
    return passed >= instruction


# Python 3.13 reports only some instructions of the first call to a trace function.
def _call_monitored(function: Callable[[], Any], file: str | None, pass_one: Callable[[], None]) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    tool, event = monitoring.DEBUGGER_ID, monitoring.events.INSTRUCTION
    caller = threading.get_ident()

    def at_instruction(code: CodeType, _: int) -> Any:
        if code.co_filename != file:
            return monitoring.DISABLE
        if threading.get_ident() == caller:  # the events are those of all threads
            pass_one()
        return None

    monitoring.use_tool_id(tool, __name__)
    try:
        monitoring.register_callback(tool, event, at_instruction)
        monitoring.set_events(tool, event)
        function()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        monitoring.restart_events()  # those that were disabled


def _call_traced(function: Callable[[], Any], file: str | None, pass_one: Callable[[], None]) -> None:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            pass_one()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
