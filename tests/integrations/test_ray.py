"""Actors of Ray exchange tensors by handles, and programs notice nothing but the time."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output, write_program
from tests.helpers.ray_programs import START, run_on

VALUES = """
    def make(name):
        floats = torch.arange(500_000, dtype=torch.float64).reshape(1000, 500)
        return {
            "plain": lambda: floats.clone(),
            "transposed": lambda: floats.t(),
            "strided": lambda: floats[::2, 1::3],
            "expanded": lambda: floats[0].expand(300, 500),
            "bfloat16": lambda: floats.bfloat16(),
            "bool": lambda: floats % 3 == 0,
            "complex": lambda: torch.complex(floats, floats),
            "conjugate": lambda: torch.complex(floats, floats).conj(),
            "scalar": lambda: torch.tensor(3.5),
            "empty": lambda: torch.zeros(0, 5),
            "leaf": lambda: floats.clone().requires_grad_(),
            "result": lambda: floats.clone().requires_grad_() * 2,
            "parameter": lambda: torch.nn.Parameter(floats.clone()),
            "sparse": lambda: torch.eye(100).to_sparse(),
            "list": lambda: [floats + i for i in range(3)],
            "dict": lambda: {"x": floats + 1, "y": {"z": floats[:500].clone()}, "n": 7, "s": "text"},
            "model": lambda: torch.nn.Linear(300, 300).state_dict(),
            "none": lambda: [1, "no tensor"],
        }[name]()


    NAMES = (
        "plain transposed strided expanded bfloat16 bool complex conjugate scalar empty leaf result "
        "parameter sparse list dict model none"
    ).split()


    def tensors(value):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (dict, list)):
            for part in value.values() if isinstance(value, dict) else value:
                yield from tensors(part)


    def describe(value):
        '''Return what a program can find out about a value.'''
        found = []
        for tensor in tensors(value):
            dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
            content = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
            strides = () if tensor.is_sparse else tensor.stride()
            found.append(
                (type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), strides, tensor.requires_grad,
                 tensor.is_conj(), tensor.is_leaf, content.double().sum().item())
            )
        return type(value).__name__, len(value) if isinstance(value, (dict, list)) else 1, found


    @ray.remote(num_cpus=0, enable_tensor_transport=True)
    class Actor:
        @ray.method(**transport())
        def make(self, name):
            torch.manual_seed(1)
            self.made = make(name)
            return self.made

        def describe(self, value):
            return describe(value)

        def describe_made(self):
            return describe(self.made)

        def write(self, value):
            for tensor in tensors(value):
                if tensor.is_leaf and not tensor.is_sparse and 0 not in tensor.stride():
                    tensor.detach().logical_not_() if tensor.dtype == torch.bool else tensor.detach().add_(1)
            return describe(value)

        def places(self, value):
            return [place(tensor) for tensor in tensors(value)]
"""


@pytest.mark.thorough
def test_values_between_actors(tmp_path, ray_environment) -> None:
    """Equal in class, content, layout and flags, and writable: no other actor sees what one has written."""
    program = write_program(
        tmp_path,
        START
        + VALUES
        + """
    if __name__ == "__main__":
        with connected():
            first, second, third = (Actor.remote() for _ in range(3))
            for name in NAMES:
                made = first.make.remote(name)
                print(name, ray.get(second.describe.remote(made)))
                print(name, ray.get([second.write.remote(made), third.write.remote(made)]))
                print(name, ray.get([second.describe.remote(made), first.describe_made.remote()]))
                if ON:
                    found = ray.get(second.places.remote(made))
                    by_pickle = name in ("sparse", "empty", "conjugate")
                    assert set(found) <= {"private" if by_pickle else "view"}, (name, found)
                    assert bool(found) == bool(st.stats()["blocks"]), name
                print(name, describe(ray.get(made)))
                del made
    """,
    )
    assert_equal_output(program, timeout=100, env=ray_environment)


def test_shared_memory_is_shared(tmp_path, ray_environment) -> None:
    """Tensors, and those of torch over them, are the same memory in all actors, writable or read-only."""
    run_on(
        tmp_path,
        ray_environment,
        """

    @ray.remote(num_cpus=0, enable_tensor_transport=True)
    class Actor:
        @ray.method(**transport("SHMTENSOR_ARRAY"))
        def make(self, nbytes):
            self.tensor = st.zeros(nbytes, np.uint8)
            private = st.from_numpy(np.ones(10))
            return {"tensor": self.tensor, "fixed": self.tensor[1:].as_readonly(), "private": private}

        @ray.method(**transport())
        def make_of_torch(self):
            self.torch = torch.from_dlpack(st.zeros((100, 1000)))
            return self.torch[:, 10:20]

        def write(self, found, value):
            found["tensor"][1] = value
            with contextlib.suppress(ValueError):
                found["fixed"][0] = 9
            return [(t.is_shared(), t.readonly, t.shape, t.numpy().max()) for t in found.values()]

        def write_of_torch(self, found):
            found += 1
            return place(found), float(found.sum())

        def read(self):
            return self.tensor[1].item(), float(self.torch.sum())


    if __name__ == "__main__":
        with connected():
            first, second, third = (Actor.remote() for _ in range(3))
            for nbytes in (100, 3_000_000):
                made = first.make.remote(nbytes)
                for value, actor in ((3, second), (4, third)):
                    tensor, fixed, private = ray.get(actor.write.remote(made, value))
                    assert tensor == (True, False, (nbytes,), value)
                    assert fixed == (True, True, (nbytes - 1,), value)
                    assert private == (True, False, (10,), 1)
                assert ray.get(made)["fixed"][0].item() == 4
                del made
            made = first.make_of_torch.remote()
            for actor, times in ((second, 1), (third, 2)):
                assert ray.get(actor.write_of_torch.remote(made)) == ("shared", 1000 * times)
            assert ray.get(first.read.remote()) == (4, 2000)
            del made
            ray.kill(first)  # it has a tensor of its own
    """,
    )


def test_tensors_without_transport_are_copied(tmp_path, ray_environment) -> None:
    """In `ray.put`, arguments and results: an equal tensor, private, writable if the one that was sent is."""
    run_on(
        tmp_path,
        ray_environment,
        """
    @ray.remote(num_cpus=0)
    def write(tensor):
        found = tensor.is_shared(), tensor.readonly, tensor.shape, str(tensor.dtype)
        if not tensor.readonly:
            tensor[0] = 7
        return found, [tensor]


    if __name__ == "__main__":
        with connected(runtime_env={"worker_process_setup_hook": "shmtensor.install"}):
            for count in (5, 1_000_000):
                tensor = st.ones((2, count), "f4")
                for sent in (tensor, tensor.as_readonly()):
                    for argument in (sent, ray.put(sent)):
                        found, (back,) = ray.get(write.remote(argument))
                        assert found == (False, sent.readonly, (2, count), "float32"), found
                        assert type(back) is st.Tensor and back.readonly == sent.readonly
                        assert back[0, 1].item() == (1 if sent.readonly else 7)
                assert tensor.numpy().max() == 1
            del tensor, sent, argument, back
    """,
    )
