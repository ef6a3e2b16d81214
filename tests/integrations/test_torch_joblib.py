"""torch's tensors in tasks and results of joblib, and of multiprocess, with both integrations."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output, importing_tests, run_program, write_program

BACKENDS = ["loky", "multiprocessing", "shmtensor"]

SHARED = """
    import sys

    import torch
    from joblib import Parallel, delayed


    def write(target, i):
        target[i] = i + 1
        return target


    def make(i):
        return torch.full((100_000,), float(i))


    def storage_of(pair):
        first, second = pair
        first[0] = 5
        return second[0].item()


    if __name__ == "__main__":
        import shmtensor as st
        from tests.helpers.children import wait_until

        backend = sys.argv[1]
        st.install("torch", "joblib")
        shared = torch.zeros(4).share_memory_()
        private = torch.zeros(100_000)
        with Parallel(2, backend=backend) as parallel:
            found = parallel(delayed(write)(shared, i) for i in range(4))
            assert shared.tolist() == [1, 2, 3, 4], shared
            found[0][0] = 9
            assert shared[0] == 9, "the result is not the same memory"
            found = parallel(delayed(write)(private, i) for i in range(4))
            assert not private.any()
            assert [one[i].item() for i, one in enumerate(found)] == [1, 2, 3, 4]
            made = parallel(delayed(make)(i) for i in range(3))
            assert all(one.is_shared() for one in made)
            whole = torch.zeros(100_000)
            assert parallel([delayed(storage_of)((whole, whole[:10]))]) == [5]
        del found, made, shared
        st.uninstall("joblib")
        wait_until(lambda: not st.stats()["blocks"] + st.stats()["in_flight"], 60, lambda: str(st.stats()))
        print("fine")
    """


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_travel_as_handles(tmp_path, backend) -> None:
    done = run_program(write_program(tmp_path, SHARED), backend, env=importing_tests(), timeout=110)
    assert done.stdout == "fine\n", done


EQUAL = """
    import sys

    import torch
    from joblib import Parallel, delayed


    def describe(value):
        if isinstance(value, torch.nn.Module):
            return [describe(one) for one in value.state_dict().values()]
        if not isinstance(value, torch.Tensor):
            return value
        kind = type(value).__name__, value.dtype, value.layout, tuple(value.size()), value.requires_grad
        content = value.detach().to_dense() if value.is_sparse else value.detach()
        return *kind, None if value.is_meta else content.resolve_conj().flatten()[:3].tolist()


    def use(value):
        return describe(value), value


    if __name__ == "__main__":
        backend, on = sys.argv[1:]
        if on == "on":
            import shmtensor as st

            st.install("joblib", "torch")
        elif backend == "shmtensor":
            backend = "loky"
        torch.manual_seed(0)
        leaf = torch.rand(300, 300)
        values = [
            leaf,
            leaf.t(),
            leaf[5:, ::2],
            torch.rand(3, dtype=torch.bfloat16),
            torch.zeros(0, 3),
            leaf.to_sparse(),
            torch.rand(3, dtype=torch.complex64).conj(),
            torch.rand(3, device="meta"),
            torch.rand(3, requires_grad=True),
            torch.nn.Parameter(torch.rand(40_000)),
            torch.nn.Linear(200, 100),
            {"nested": [leaf, 1]},
        ]
        for seen, value in Parallel(2, backend=backend)(delayed(use)(value) for value in values):
            if isinstance(value, dict):
                seen, value = describe(seen["nested"][0]), value["nested"][0]
            print(seen, describe(value))
    """


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_equal_with_and_without_the_integrations(tmp_path, backend) -> None:
    assert_equal_output(write_program(tmp_path, EQUAL), backend, timeout=110)
