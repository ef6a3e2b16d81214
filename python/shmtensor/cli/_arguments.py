"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import shmtensor._core as _core
from shmtensor._sessions import find_sessions, observe
from shmtensor.cli._output import complain, echo, plain
from shmtensor.errors import SessionError, ShmTensorError

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 1e9  # seconds; time.sleep() accepts about ten times as many


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the argument with the sessions that a command is for."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help=f"{what} (the first digits of an id, or a name)"
    )


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add the arguments with the name that a command changes."""
    parser.add_argument("session", metavar="SESSION", help="the first digits of an id, or a name")
    parser.add_argument("name", metavar="NAME", help="the name under which an object is published")


def change_name(options: argparse.Namespace, change: Callable[[str], bool], done: str) -> int:
    """Join the session, call `change` with the name, print the result and return the exit status."""
    problem = _join(options.session)
    if problem is None:
        try:
            if not change(options.name):
                problem = f"nothing is published under {options.name!r} in session {_core.home_id()}"
        except (ShmTensorError, ValueError) as error:
            problem = str(error)
    if problem is not None:
        complain(problem)
        return 1
    echo(plain(f"{done} {options.name!r} of session {_core.home_id()}"))
    return 0


def _join(text: str) -> str | None:
    """Join the session that is called so; return why this failed, or None."""
    found = observe_sessions([text])
    if found.missing or found.problems:
        return found.problems[0] if found.problems else no_session(text)
    if (problem := found.unclear(text)) is not None:
        return problem
    session: str = found.seen[0]["session"]
    _core.set_home_id(session)
    mine = _core.home_id()
    return None if mine == session else f"this process is in another session, {mine}"


class Observed(NamedTuple):
    """The sessions that a command is for."""

    seen: list[dict[str, Any]]
    missing: list[str]  # the wanted ones that do not exist
    problems: list[str]  # of those that do not answer

    def unclear(self, text: str) -> str | None:
        """Return the problem of a text that several of the sessions are called by, or None."""
        called = [one["session"] for one in self.seen if is_called(one["session"], text)]
        return f"several sessions begin with {text}: {', '.join(called)}" if len(called) > 1 else None


def observe_sessions(wanted: list[str]) -> Observed:
    """Observe the wanted sessions (none: all)."""
    seen: list[dict[str, Any]] = []
    problems: dict[str, str] = {}  # by session
    for session in find_sessions():
        if not wanted or any(is_called(session, text) for text in wanted):
            try:
                found = observe(session)
            except SessionError as error:
                problems[session] = str(error)
            else:
                if found is not None:
                    seen.append(found)
                    if found["name"] is None:  # no process has it, but the user may
                        names = (text for text in wanted if _core.session_named(text) == session != text)
                        found["name"] = next(names, None)
    there = [*(one["session"] for one in seen), *problems]
    missing = [text for text in wanted if not any(is_called(session, text) for session in there)]
    return Observed(seen, missing, list(problems.values()))


def is_called(session: str, text: str) -> bool:
    """Return True if the text is the name of the session, or the beginning of its id; an empty one is not."""
    return bool(text) and (session.startswith(text.lower()) or session == _core.session_named(text))


def no_session(text: str) -> str:
    """Return the problem of a text that no session is called by."""
    return f"no session {text or repr(text)}"


def seconds(text: str) -> float:
    """Convert an argument to seconds; for ``type=``."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= _LONGEST:
        msg = f"invalid number of seconds, from 0 to {_LONGEST:g}: {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value
