"""Programs whose main module a worker cannot import: the advice in their errors, and that it helps."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.helpers.children import run_command, write_program

NO_GUARD = """
    import sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def work(rank, tensor):
        tensor[rank] = rank + 1

    tensor = st.zeros(2)
    mp.spawn(work, (tensor,), nprocs=2, start_method=sys.argv[1])
    print(tensor.tolist())
"""
NOTEBOOK = f"""
    import sys, textwrap, types
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(textwrap.dedent({NO_GUARD!r}), main.__dict__)
"""
ADVICE = (
    "a worker started by spawn imports the main module, which must be a file (not a notebook, standard "
    "input, or a package's `__main__.py`), and finds functions in it by their names; keep code that starts "
    'workers below `if __name__ == "__main__":`. The start method "server" needs none of this'
)


def run(kind, folder, start_method):
    program = write_program(folder, NOTEBOOK if kind == "notebook" else NO_GUARD)
    if kind != "standard input":
        return run_command([sys.executable, str(program), start_method])
    return run_command(
        ["sh", "-c", f"{shlex.quote(sys.executable)} - {start_method} < {shlex.quote(str(program))}"]
    )


@pytest.mark.parametrize("kind", ["no guard", "standard input", "notebook"])
def test_error_explains_the_main_module(kind, tmp_path) -> None:
    """Regression: it reported only "exit code 1 without an exception", or a missing attribute."""
    done = run(kind, tmp_path, "spawn")
    assert done.stderr.count(ADVICE) == 1, "once, not for each worker"
    assert kind != "no guard" or "before its function was called; see its standard error\n" in done.stderr


@pytest.mark.parametrize("kind", ["no guard", "standard input", "notebook"])
def test_server_does_not_need_the_main_module(kind, tmp_path) -> None:
    done = run(kind, tmp_path, "server")
    assert done.stdout == "[1.0, 2.0]\n", done
