"""What a notebook shows, and which names completion offers."""

from __future__ import annotations

import os
import pydoc
import re
import rlcompleter
from html.parser import HTMLParser

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import fork, wait_until


class Page(HTMLParser):
    """The texts and attributes of balanced HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def facts(self) -> dict[str, str]:
        """Return the rows of the table."""
        cells = self.texts[1:]
        return dict(zip(cells[::2], cells[1::2], strict=False))


def page(shown) -> Page:
    return Page(shown._repr_html_())


def test_facts_of_a_tensor(strategy) -> None:
    tensor = st.zeros((100, 200), "float32")
    facts = page(tensor).facts()
    assert re.fullmatch(r"\d+/\d+", facts.pop("arena/block"))
    assert facts == {
        "shape": "(100, 200)",
        "dtype": "float32",
        "size": "78.1 KiB (80,000 bytes)",
        "device": "cpu",
        "memory": "shared",
        "strategy": strategy,
        "processes": "1",
    }
    view = page(tensor[3:5].as_readonly()).facts()
    assert view["memory"] == "shared, read-only"
    assert view["size"] == "1.6 KiB (1,600 bytes), of 78.1 KiB (80,000 bytes)"


def test_facts_of_other_memory(tmp_path) -> None:
    private = page(st.from_numpy(np.ones(3))).facts()
    assert private["memory"] == "private"
    assert "strategy" not in private
    mapped = st.Storage.from_file(tmp_path / "a<b>", nbytes=80)
    facts = page(st.Tensor(mapped, "f8", (10,))).facts()
    assert facts["file"] == str(tmp_path / "a<b>")
    tensor = st.ones(3)
    tensor.release()
    assert page(tensor).facts() == {"memory": "released"}


def test_processes_that_hold_a_tensor() -> None:
    tensor = st.ones(3)
    reader, writer = os.pipe()
    pid = fork(lambda: os.read(reader, 1))
    wait_until(lambda: page(tensor).facts()["processes"] == "2", what="the child to hold it")
    os.write(writer, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    wait_until(lambda: page(tensor).facts()["processes"] == "1", what="its end to be noticed")
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.arange(3), "[0, 1, 2]"),
        (np.array(7.5), "7.5"),
        (np.arange(10), "[0, 1, 2, 3, 4, 5, 6, 7]\nelements [:8] of 10"),
        (np.arange(8).reshape(2, 4), "[[0, 1, 2, 3],\n [4, 5, 6, 7]]"),
        (np.zeros((2, 3, 7, 1), "u1"), "elements [0, 0, :6, :1] of 42"),
        (np.array([(1, "<i>&")], [("<b>", "i4"), ("b", "U5")]), "[(1, '<i>&')]"),
        (np.zeros(2, "S5000"), "elements of 4.9 KiB"),
        (np.zeros((0, 3)), None),
    ],
    ids=range(8),
)
def test_elements_are_few_and_escaped(array, text) -> None:
    shown = page(st.asarray(array))
    assert {tag for tag, _ in shown.attributes} == {"style"}
    if text is None:
        assert shown.texts[-1] == "1"  # of processes
    else:
        assert shown.texts[-1].endswith(text)
    assert "<b>" not in st.asarray(array)._repr_html_()


def test_no_colour_is_set() -> None:
    for shown in (st.ones(3), st.SharedList([1]), st.SharedDict({"a": 1}), st.stats()):
        assert {value for _, value in page(shown).attributes} == {"text-align: left"}


def test_large_data_is_not_read(tmp_path) -> None:
    """A sparse file of 64 GiB: to read all would take minutes, and a copy more memory than there is."""
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 36)
    tensor = st.Tensor(st.Storage.from_file(path, readonly=True), "u1", (1 << 16, 1 << 20))
    assert page(tensor).texts[-1].endswith(f"elements [:6, :8] of {1 << 36:,}")
    assert path.stat().st_blocks == 0


def test_containers() -> None:
    items = st.SharedList([{"a": 1}, "<x>", np.zeros(1 << 20), bytes(1 << 20), 5, 6])
    shown = page(items)
    facts = shown.facts()
    assert facts["items"] == "6"
    assert facts["memory"].endswith(" bytes), in 2 blocks")
    assert facts["processes"] == "1"
    lines = shown.texts[-1].split("\n")
    assert lines[:2] == ["0: {'a': 1}", "1: '<x>'"]
    assert lines[2].startswith("2: array([0., 0., 0.,")
    assert lines[3:] == ["3: (1.0 MiB)", "4: 5", "..."]
    assert page(items[4:]).texts[-1] == "0: 5\n1: 6"
    state = page(st.SharedDict({"a": {"b": 1}, 5: "x" * 5000}))
    first, second = state.texts[-1].split("\n")
    assert first.startswith("'a': <SharedDict: 1 keys")
    assert second.startswith("5: 'xxx")
    assert len(second) < 250
    assert page(st.SharedList()).facts()["items"] == "0"


class Broken:
    """An object that cannot be unpickled."""

    def __reduce__(self):
        return _fail, ()


class Rude:
    """An object without a text."""

    def __repr__(self) -> str:
        raise RuntimeError


def _fail() -> None:
    msg = "not <today>"
    raise ValueError(msg)


def test_items_that_raise_are_shown_as_errors() -> None:
    lines = page(st.SharedList([Broken(), Rude(), 3])).texts[-1].split("\n")
    assert lines[0] == "0: ValueError('not <today>')"
    assert lines[1].startswith("1: <Rude instance at ")
    assert lines[2] == "2: 3"


def test_session() -> None:
    st.ones(1)
    counters = st.stats()
    assert isinstance(counters, dict)
    facts = page(counters).facts()
    assert facts["session"] == counters["session"]
    assert facts["processes"] == str(counters["processes"])


OBJECTS = {
    "st": lambda: st,
    "mp": lambda: mp,
    "tensor": lambda: st.ones(3),
    "view": lambda: st.ones((3, 3)).as_readonly()[1:],
    "private": lambda: st.from_numpy(np.ones(3)),
    "storage": lambda: st.Storage(5),
    "items": lambda: st.SharedList([1]),
    "state": lambda: st.SharedDict({"a": 1}),
    "queue": st.Queue,
    "broadcast": lambda: st.Broadcast(2),
    "reader": lambda: st.Broadcast(2).reader(),
    "cuda": lambda: st.cuda,
    "memory": lambda: st.memory,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_offered_names_exist(name) -> None:
    thing = OBJECTS[name]()
    assert [one for one in dir(thing) if not hasattr(thing, one)] == []


@pytest.mark.parametrize("name", ["tensor", "st.Tensor"])
def test_completion_offers_methods_of_tensors_only(name) -> None:
    complete = rlcompleter.Completer({"tensor": st.ones(3), "st": st}).attr_matches
    offered = {text.removeprefix(f"{name}.").rstrip("()") for text in complete(f"{name}.")}
    assert {"numpy", "shape", "clone", "release", "share_memory_"} <= offered
    assert not {"sum", "mean", "tobytes", "astype"} & offered
    assert all(hasattr(st.Tensor, one) for one in offered)
    shared = [text.rstrip("()") for text in complete(f"{name}.sha")]
    assert shared == [f"{name}.shape", f"{name}.share_memory_"]


def test_help_lists_what_a_tensor_has() -> None:
    text = pydoc.plain(pydoc.render_doc(st.Tensor))
    assert "An n-dimensional view of a `Storage`." in text
    listed = set(re.findall(r"^ \|  (\w+)(?:\(| = \w+\(|$)", text, re.MULTILINE))
    public = {name for name in dir(st.Tensor) if not name.startswith("_")}
    assert public <= listed
    assert not {"sum", "mean", "tobytes", "astype"} & listed
    assert "Not an attribute" not in text
