"""The JSON of the commands is what docs/guide/looking-inside.md documents: every key, and no other."""

from __future__ import annotations

import json
import re
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from tests.cli.running import run

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "looking-inside.md").read_text()
TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}


def documented(heading: str) -> dict[str, set[type]]:
    """Return the keys that are listed below a heading, with the types of their values."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    (listed,) = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    rows = [re.split(r" {2,}", line)[:2] for line in listed.splitlines()]
    return {key: {TYPES[name] for name in types.split(" or ")} for key, types in rows}


def found(value: Any, prefix: str = "") -> dict[str, set[type]]:
    """Return the keys of a document in the same form; all dicts of a list count as one."""
    keys: dict[str, set[type]] = {}
    for one in value if isinstance(value, list) else [value]:
        for key, inner in one.items():
            nested = isinstance(inner, list)
            more = found(inner, f"{prefix}{key}[].") if nested else {prefix + key: {type(inner)}}
            for name, types in more.items():
                keys[name] = keys.get(name, set()) | types
    return keys


@pytest.fixture
def everything():
    """Return a session with something of every kind."""
    message = ForkingPickler.dumps(st.ones(1000))
    queue, broadcast = st.Queue(maxsize=3, label="täsks"), st.Broadcast(3)
    queue.put(1)
    st.publish("a name", queue)
    yield st.stats()["session"]
    st.unpublish("a name")
    st.gc(older_than=0)
    del message, queue, broadcast


def test_keys_and_types_of_ls(everything, capsys) -> None:
    code, text = run(capsys, "ls", "--json", everything)
    assert code == 0
    seen = found(json.loads(text))
    expected = documented("JSON of ls")
    assert sorted(seen) == sorted(expected)
    for key, types in seen.items():
        assert types <= expected[key], key


def test_sizes_are_bytes_and_ages_are_seconds(everything, capsys) -> None:
    code, text = run(capsys, "ls", "--json", everything)
    assert code == 0
    (seen,) = json.loads(text)
    stats = st.stats()
    assert seen["bytes_live"] == stats["bytes_live"] == sum(one["bytes_live"] for one in seen["arenas"])
    assert seen["blocks"] == stats["blocks"] == sum(one["blocks"] for one in seen["arenas"])
    assert sum(one["bytes_reserved"] for one in seen["arenas"]) == seen["bytes_reserved"]
    assert [one["messages"] for one in seen["in_flight"]] == [1]
    assert 0 <= seen["in_flight"][0]["age"] < 100
    assert {one["readers"] for one in seen["queues"]} == {None, 0}
    labels = {one["limit"]: one["label"] for one in seen["queues"] if one["readers"] is None}
    assert labels == {3: "täsks"}
    (place,) = (one["label"] for one in seen["queues"] if one["readers"] is not None)
    assert re.fullmatch(r"test_json\.py:\d+", place), place
    assert [(one["name"], one["stage"]) for one in seen["names"]] == [("a name", "published")]
