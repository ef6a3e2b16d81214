"""IPython: completion by both of its completers, and what a notebook's kernel shows."""

from __future__ import annotations

import json

import pytest

import shmtensor as st
from tests.helpers.children import run_python

SHELL = """
    import json, sys
    import shmtensor as st
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(history_length=0)
    shell.push({"st": st, "tensor": st.ones(3), "items": st.SharedList([1]), "queue": st.Queue()})
"""


def run_in_shell(tmp_path, code: str, *arguments: str):
    done = run_python(SHELL + code, env={"IPYTHONDIR": str(tmp_path)}, arguments=arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("use_jedi", [False, True], ids=["names", "jedi"])
def test_completion_offers_the_public_names(tmp_path, use_jedi) -> None:
    offered = run_in_shell(
        tmp_path,
        """
    shell.Completer.use_jedi = bool(int(sys.argv[1]))
    with provisionalcompleter():
        print(json.dumps({
            name: [one.text.lstrip(".") for one in shell.Completer.completions(f"{name}.", len(name) + 1)]
            for name in ("st", "tensor", "st.Tensor", "items", "queue")
        }))
        """,
        str(int(use_jedi)),
    )
    public = {
        "st": st,
        "tensor": st.Tensor,
        "st.Tensor": st.Tensor,
        "items": st.SharedList,
        "queue": st.Queue,
    }
    for name, thing in public.items():
        expected = {one for one in dir(thing) if not one.startswith("_")}
        assert set(offered[name]) - {"mro"} == expected, name  # of every class


def test_kernel_shows_tables(tmp_path) -> None:
    kinds = run_in_shell(
        tmp_path,
        """
    shown = [st.ones(3), st.SharedList([1]), st.SharedDict({"a": 1}), st.stats()]
    print(json.dumps([sorted(shell.display_formatter.format(one)[0]) for one in shown]))
        """,
    )
    assert kinds == [["text/html", "text/plain"]] * 4
