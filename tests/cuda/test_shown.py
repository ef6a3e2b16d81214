"""What `ls`, notebooks and completion show of GPU memory."""

from __future__ import annotations


def test_arenas_of_gpus_have_their_own_names(simulator) -> None:
    """Regression: `ls` listed them as file_descriptor."""
    simulator.run("""
        import contextlib, io, json
        import shmtensor as st
        from shmtensor.cli import main
        tensor = st.ones(10, device="cuda:0")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main(["ls", "--json", st.stats()["session"]]) == 0
        (seen,) = json.loads(out.getvalue())
        assert "device" in [arena["strategy"] for arena in seen["arenas"]], seen
    """)


def test_tensor_in_a_notebook(simulator) -> None:
    simulator.run("""
        import shmtensor as st
        tensor = st.asarray(range(1000)).reshape(10, 100).to("cuda:0")
        shown = tensor._repr_html_()
        for part in ("cuda:0", "strategy", "[[  0,   1,   2,   3,   4,   5,   6,   7],", "of 1,000"):
            assert part in shown, (part, shown)
    """)


def test_offered_names_exist(simulator) -> None:
    simulator.run("""
        import shmtensor as st
        tensor = st.ones(10, device="cuda:0")
        assert [name for name in dir(tensor) if not hasattr(tensor, name)] == []
        assert "numpy" not in dir(tensor) and "cupy" in dir(tensor)
        assert "__cuda_array_interface__" in dir(tensor)
    """)
