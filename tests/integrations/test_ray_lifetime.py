"""Memory that actors of Ray share is released with the last reference to it."""

from __future__ import annotations

import pytest

from tests.helpers.ray_programs import run_on


@pytest.mark.thorough
def test_memory_is_released_with_the_last_reference(tmp_path, ray_environment) -> None:
    """Whoever has it; a receiver keeps what it has received. So too after `uninstall`."""
    run_on(
        tmp_path,
        ray_environment,
        """
    @ray.remote(num_cpus=0, enable_tensor_transport=True)
    class Actor:
        @ray.method(**transport())
        def make(self):
            self.children = []
            return torch.ones(100_000)

        def fork(self):
            import os, time

            if (pid := os.fork()) == 0:
                time.sleep(60)
                os._exit(0)
            return pid

        def put(self):
            return [ray.put(torch.ones(100_000), _tensor_transport="SHMTENSOR")]

        def keep(self, tensor):
            self.kept = tensor
            return float(tensor.sum())

        def get(self, references):
            return [float(ray.get(reference).sum()) for reference in references]

        def add_to_kept(self):
            self.kept += 1
            return float(self.kept.sum())

        def drop(self):
            del self.kept


    @ray.remote(num_cpus=0)
    def get(references):
        return [float(ray.get(reference).sum()) for reference in references]


    if __name__ == "__main__":
        import os, signal

        with connected():
            first, second = Actor.remote(), Actor.remote()
            made = first.make.remote()
            child = ray.get(first.fork.remote())
            assert ray.get(second.keep.remote(made)) == 100_000
            del made
            assert ray.get(second.add_to_kept.remote()) == 200_000
            assert st.stats()["blocks"] == 1, st.stats()
            ray.get(second.drop.remote())
            wait_for_no_blocks()
            os.kill(child, signal.SIGKILL)

            made = first.make.remote()
            here = ray.get(made)
            del made
            assert st.stats()["blocks"] == 1, st.stats()
            assert here.add_(1).sum() == 200_000
            del here
            wait_for_no_blocks()

            put = ray.put(torch.ones(100_000), _tensor_transport="SHMTENSOR")
            assert ray.get(second.keep.remote(put)) == 100_000
            assert ray.get(put).sum() == 100_000
            del put
            ray.get(second.drop.remote())
            wait_for_no_blocks()

            made = [first.make.remote(), ray.put(torch.ones(100_000), _tensor_transport="SHMTENSOR")]
            ray.wait(made, num_returns=2)
            assert ray.get(get.remote(made)) == ray.get(second.get.remote(made)) == [100_000, 100_000]
            del made
            wait_for_no_blocks()
            made = ray.get(first.put.remote())
            assert ray.get(made[0]).sum() == ray.get(second.keep.remote(made[0])) == 100_000
            assert ray.get(first.get.remote(made)) == [100_000]
            del made
            ray.get(second.drop.remote())
            wait_for_no_blocks()

            made = first.make.remote()
            ray.get(second.keep.remote(made))
            st.uninstall("ray")
            with contextlib.suppress(ValueError):
                ray.method(**transport())(place)
                raise AssertionError("the transport is registered")
            assert ray.get(second.keep.remote(made)) == 100_000
            del made
            ray.get(second.drop.remote())
            wait_for_no_blocks()
    """,
    )
