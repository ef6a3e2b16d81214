"""Actors of Ray in one session, in several, and in one whose memory is used up."""

from __future__ import annotations

import pytest

from tests.helpers.children import importing_tests, run_program, write_program
from tests.helpers.ray_programs import QUIET, START, run_on


@pytest.mark.thorough
def test_values_without_shared_memory(tmp_path, ray_environment) -> None:
    """An actor that has reached its limit sends bytes; one of another session receives handles as a guest."""
    run_on(
        tmp_path,
        ray_environment,
        """
    @ray.remote(num_cpus=0, enable_tensor_transport=True)
    class Actor:
        @ray.method(**transport())
        def make(self):
            return torch.ones(100_000)

        def receive(self, tensor, here):
            return float(tensor.add_(1).sum()), place(tensor), st.stats()["session"] != here


    if __name__ == "__main__":
        with connected():
            variables = [{"SHMTENSOR_MAX_BYTES": "1000"}, {"SHMTENSOR_SESSION": "other"}]
            limited, guest = (Actor.options(runtime_env={"env_vars": more}).remote() for more in variables)
            actor = Actor.remote()
            here = st.stats()["session"]
            made = actor.make.remote()
            assert ray.get(guest.receive.remote(made, here)) == (200_000, "view", True)
            made = guest.make.remote()
            assert ray.get(actor.receive.remote(made, here)) == (200_000, "view", False)
            made = limited.make.remote()
            assert ray.get(actor.receive.remote(made, here)) == (200_000, "private", False)
            del made
    """,
    )


@pytest.mark.thorough
def test_cluster_that_the_program_starts_is_in_its_session(tmp_path) -> None:
    done = run_program(
        write_program(
            tmp_path,
            START
            + """

    @ray.remote(num_cpus=0, enable_tensor_transport=True)
    class Actor:
        @ray.method(**transport())
        def make(self):
            return torch.ones(100_000)

        def session(self):
            return session()

        def receive(self, tensor):
            return place(tensor)


    def session():
        st.empty(1)
        return st.stats()["session"]


    if __name__ == "__main__":
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ray-") as folder:
            ray.init(num_cpus=1, include_dashboard=False, _temp_dir=folder, _node_ip_address="127.0.0.1")
            first, second = Actor.remote(), Actor.remote()
            assert {session(), *ray.get([first.session.remote(), second.session.remote()])} == {session()}
            made = first.make.remote()
            assert ray.get(second.receive.remote(made)) == "view"
            del made
            wait_for_no_blocks()
            ray.shutdown()
    """,
        ),
        "on",
        timeout=100,
        env={**importing_tests(), **QUIET},
    )
    assert done.returncode == 0, done.stderr
