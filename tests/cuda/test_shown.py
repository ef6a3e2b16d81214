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
