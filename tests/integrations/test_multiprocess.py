"""multiprocess, the copy of multiprocessing that pickles by dill, with `st.install`."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output, run_program, write_program
from tests.integrations.programs import PROGRAMS, succeed

METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
def test_writes_are_seen_and_nothing_is_left(method) -> None:
    succeed("multiprocess_shared.py", method)


@pytest.mark.parametrize("method", METHODS)
def test_results_are_equal_with_and_without_the_integration(method) -> None:
    assert_equal_output(PROGRAMS / "array_values.py", "multiprocess", method, timeout=110)


SERVER = """
    import multiprocess

    import shmtensor as st

    if __name__ == "__main__":
        st.install("multiprocess")
        assert "server" in multiprocess.get_all_start_methods()
        target = st.zeros(4)
        with multiprocess.get_context("server").Pool(2) as pool:
            pool.starmap(lambda tensor, i: tensor.fill_(i), [(target[i], i) for i in range(4)])
        assert target.tolist() == [0, 1, 2, 3]
        st.uninstall("multiprocess")
        assert "server" not in multiprocess.get_all_start_methods()
        print("fine")
    """


def test_server_is_a_start_method(tmp_path) -> None:
    done = run_program(write_program(tmp_path, SERVER), timeout=110)
    assert done.stdout == "fine\n", done


def test_array_of_a_closure_is_copied_once() -> None:
    succeed("multiprocess_closure.py")


def test_forked_children_of_an_event_loop_have_their_own_signals() -> None:
    assert succeed("multiprocess_event_loop.py") == "-15\nTrue\n"
