"""reshape, view, transpose and T: views where possible, copies only where documented, NumPy's errors."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

pytestmark = pytest.mark.usefixtures("strategy")


def cube() -> st.Tensor:
    return st.asarray(np.arange(24.0).reshape(2, 3, 4))


@pytest.mark.parametrize(
    "shape", [(24,), (4, 6), (-1,), (2, -1), (2, 3, 4), (1, 24, 1), [6, 4], (np.int8(24),)]
)
@pytest.mark.parametrize("name", ["reshape", "view"])
def test_reshape_accepts_sequence_or_separate_sizes(name, shape) -> None:
    tensor = cube()
    expected = tensor.numpy().reshape(shape)
    for result in (getattr(tensor, name)(shape), getattr(tensor, name)(*shape)):
        assert (result.shape, result.strides) == (expected.shape, expected.strides)
        assert result.storage() is tensor.storage()
        np.testing.assert_array_equal(result.numpy(), expected)


def test_one_element_reshapes_to_any_number_of_dimensions() -> None:
    one = st.ones(())
    assert one.reshape(1, 1).shape == (1, 1)
    assert st.ones((1, 1)).reshape(()).shape == ()
    assert st.ones((1, 1)).view(()).shape == ()


def test_empty_tensor_can_be_reshaped() -> None:
    nothing = st.zeros((0, 3))
    assert nothing.reshape(3, 0).shape == (3, 0)
    assert nothing.view(0, 7).shape == (0, 7)
    assert nothing.T.reshape(-1).shape == (0,)


def test_view_refuses_shapes_for_which_reshape_copies() -> None:
    tensor = cube()
    with pytest.raises(ValueError, match=r"\(24,\) needs a copy.*strides.*use reshape"):
        tensor.T.view(24)
    copy = tensor.T.reshape(24)
    np.testing.assert_array_equal(copy.numpy(), tensor.numpy().T.reshape(24))
    assert copy.is_shared()
    assert copy.storage() is not tensor.storage()
    assert not tensor.as_readonly().T.reshape(24).readonly, "the copy has no other user"


def test_strided_tensor_reshapes_without_copy_if_possible() -> None:
    tensor = cube()
    for view, shape in (
        (tensor[:, 1:, ::-1], (2, 2, 2, 2)),
        (tensor.T, (4, 3, 1, 2)),
        (tensor[::-1], (2, 12)),
    ):
        result = view.reshape(shape)
        assert result.storage() is tensor.storage()
        np.testing.assert_array_equal(result.numpy(), view.numpy().reshape(shape))


@pytest.mark.parametrize("shape", [5, (5, 5), (-1, -1), (7, -1), (0,), (), 2.5, "x", (None,)], ids=repr)
def test_reshape_errors_match_numpy(shape) -> None:
    tensor = cube()
    with pytest.raises((ValueError, TypeError)) as numpys:
        tensor.numpy().reshape(shape)
    with pytest.raises(numpys.type) as ours:
        tensor.reshape(shape)
    assert str(ours.value) == str(numpys.value)


@pytest.mark.parametrize(
    "dtype", ["i8", np.uint8, np.dtype("f4"), [("re", "f4"), ("im", "f4")], "M8[s]", ">f8"]
)
def test_view_reinterprets_bytes_as_other_dtype(dtype) -> None:
    tensor = cube()
    result = tensor.view(np.dtype(dtype))
    assert result.storage() is tensor.storage()
    assert result.numpy().tobytes() == tensor.numpy().tobytes()
    assert result.shape == tensor.numpy().view(dtype).shape
    if not isinstance(dtype, list):
        assert tensor.view(dtype).dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "kind", "text"),
    [("V7", ValueError, "divisor"), (object, TypeError, "data-type"), ("foo", TypeError, "'foo'")],
)
def test_view_refuses_a_dtype_that_does_not_fit(dtype, kind, text) -> None:
    tensor = cube()
    with pytest.raises(kind, match=text):
        tensor.view(dtype)


def test_view_to_another_item_size_needs_a_contiguous_last_axis() -> None:
    tensor = cube()
    with pytest.raises(ValueError, match="last axis must be contiguous"):
        tensor[..., ::2].view("f4")


@pytest.mark.parametrize(
    "axes", [(), (2, 1, 0), (0, 2, 1), (-1, 0, 1), ((1, 2, 0),), (None,), ([0, 1, 2],)], ids=repr
)
def test_transpose_permutes_the_axes(axes) -> None:
    tensor = cube()
    expected = tensor.numpy().transpose(*axes)
    result = tensor.transpose(*axes)
    assert (result.shape, result.strides) == (expected.shape, expected.strides)
    assert result.storage() is tensor.storage()
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize(
    "axes", [(0,), (0, 1), (0, 0, 1), (0, 1, 3), (0, 1, 2, 3), (0, 1, "x"), (0, 1, 1.5)], ids=repr
)
def test_transpose_errors_match_numpy(axes) -> None:
    tensor = cube()
    with pytest.raises((ValueError, TypeError)) as numpys:
        tensor.numpy().transpose(*axes)
    with pytest.raises(numpys.type) as ours:
        tensor.transpose(*axes)
    assert str(ours.value) == str(numpys.value)


def test_transpose_property_reverses_the_axes() -> None:
    tensor = cube()
    assert tensor.T.shape == (4, 3, 2)
    assert tensor.T.T.strides == tensor.strides
    assert st.ones(3).T.shape == (3,)
    assert st.ones(()).T.shape == ()


def test_writes_through_every_view_reach_the_tensor() -> None:
    tensor = cube()
    for number, view in enumerate(
        (tensor.T, tensor.reshape(-1), tensor.view(4, 6), tensor.transpose(1, 0, 2))
    ):
        view[(0,) * view.ndim] = -number
        assert tensor[0, 0, 0].item() == -number


def test_numpy_functions_that_call_methods_return_tensors() -> None:
    tensor = cube()
    assert type(np.transpose(tensor)) is st.Tensor
    assert np.reshape(tensor, (6, 4)).shape == (6, 4)
