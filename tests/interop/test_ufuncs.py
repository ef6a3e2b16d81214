"""NumPy computes: operators, ufuncs with `out`, reductions, comparisons; in place means in shared memory."""

from __future__ import annotations

import operator
import sys

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import ALL, name_of, some_array

pytestmark = pytest.mark.usefixtures("strategy")

BINARY = [
    *(
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
    ),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, divmod),
]
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
UNARY = [operator.neg, operator.pos, abs]
IN_PLACE = [
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
    operator.ipow,
]


def name(function) -> str:
    return function.__name__


@pytest.mark.parametrize("operate", BINARY, ids=name)
@pytest.mark.parametrize("dtype", [float, int])
def test_operators_return_private_numpy_arrays(operate, dtype) -> None:
    a, b = np.arange(1, 7, dtype=dtype).reshape(2, 3), np.arange(2, 5, dtype=dtype)
    expected = operate(a, b)
    tensor = st.asarray(a)
    for result in (operate(tensor, st.asarray(b)), operate(tensor, b), operate(a, st.asarray(b))):
        np.testing.assert_array_equal(result, expected)
        assert isinstance(result, (np.ndarray, tuple))
    np.testing.assert_array_equal(operate(tensor, 2), operate(a, 2))
    np.testing.assert_array_equal(operate(2, tensor), operate(2, a))
    assert tensor.tolist() == a.tolist()


@pytest.mark.parametrize("operate", BITWISE, ids=name)
def test_bitwise_operators_match_numpy(operate) -> None:
    a, b = np.arange(6), np.arange(6)[::-1]
    np.testing.assert_array_equal(operate(st.asarray(a), st.asarray(b)), operate(a, b))
    np.testing.assert_array_equal(~st.asarray(a), ~a)


@pytest.mark.parametrize("operate", UNARY, ids=name)
def test_unary_operators_match_numpy(operate) -> None:
    a = np.array([-1.5, 0, 2])
    np.testing.assert_array_equal(operate(st.asarray(a)), operate(a))


def test_matrix_products_match_numpy() -> None:
    a = np.arange(6.0).reshape(2, 3)
    tensor = st.asarray(a)
    np.testing.assert_array_equal(tensor @ tensor.T, a @ a.T)
    np.testing.assert_array_equal(a @ tensor.T, a @ a.T)
    np.testing.assert_array_equal(np.dot(tensor, tensor.T), a @ a.T)


@pytest.mark.parametrize("operate", IN_PLACE, ids=name)
def test_inplace_operators_write_into_the_same_memory(operate) -> None:
    a = np.arange(1.0, 7).reshape(2, 3)
    tensor = same = st.asarray(a)
    view = tensor[1]
    address = tensor.data_ptr()
    tensor = operate(tensor, np.array([2.0, 3, 4]))
    assert tensor is same
    assert tensor.data_ptr() == address
    expected = operate(a, np.array([2.0, 3, 4]))
    np.testing.assert_array_equal(tensor.numpy(), expected)
    np.testing.assert_array_equal(view.numpy(), expected[1])


def test_inplace_operators_keep_the_dtype() -> None:
    tensor = st.asarray([1, 2, 3])
    with pytest.raises(TypeError, match=r"float64.*int64"):
        tensor += 0.5
    assert tensor.tolist() == [1, 2, 3]


def test_inplace_matrix_products_match_numpy() -> None:
    a, b = np.arange(4.0).reshape(2, 2), np.array([[0.0, 1], [1, 1]])
    tensor = same = st.asarray(a)
    try:
        a @= b
    except TypeError:  # before NumPy 1.25
        return
    tensor @= st.asarray(b)
    assert tensor is same
    np.testing.assert_array_equal(tensor.numpy(), a)


@pytest.mark.parametrize("operate", IN_PLACE, ids=name)
def test_inplace_operators_refuse_read_only_tensors(operate) -> None:
    tensor = st.ones(3)
    with pytest.raises(ValueError, match="read-only"):
        operate(tensor.as_readonly(), 2)
    assert tensor.tolist() == [1, 1, 1]


@pytest.mark.parametrize("operate", [*BINARY, operator.matmul, *UNARY, *IN_PLACE], ids=name)
def test_operators_run_no_python_code(operate) -> None:
    """Regression: `t[0] + 1` took 5.8 us, most of it in Python."""
    tensor, calls = st.ones(3), []
    operands = (tensor,) if operate in UNARY else (tensor, np.ones(3))
    operate(*operands)
    profile = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code) if event == "call" else None)
    try:
        operate(*operands)
    finally:
        sys.setprofile(profile)
    assert calls == []


def test_out_tensors_are_filled_and_returned() -> None:
    a, out = st.asarray([1.0, 4, 9]), st.zeros(3)
    assert np.sqrt(a, out=out) is out
    assert out.tolist() == [1, 2, 3]
    assert np.add(np.ones(3), 1, out=out) is out
    assert out.tolist() == [2, 2, 2]
    assert np.add.accumulate([3.0, 4, 5], out=out) is out
    assert out.tolist() == [3, 7, 12]
    array = np.zeros(3)
    assert np.sqrt(a, out=array) is array


REDUCTIONS = [np.sum, np.prod, np.max, np.any, np.mean, np.var, np.std, np.median, np.nanmean, np.nanstd]


@pytest.mark.parametrize("reduce", REDUCTIONS, ids=name)
def test_reduction_into_tensor_matches_array(reduce) -> None:
    """Regression: mean, var, std and median left the sum in the tensor: they finish only in arrays."""
    a = np.arange(6.0).reshape(3, 2)
    for shape, axis in (((2,), 0), ((), None)):
        out, expected = st.zeros(shape), np.zeros(shape)
        reduce(a, axis=axis, out=expected)
        result = reduce(st.asarray(a), axis=axis, out=out)
        np.testing.assert_array_equal(out.numpy(), expected)
        np.testing.assert_array_equal(result, expected)
        assert np.shares_memory(result, out.numpy())


def test_partial_out_tuples_are_accepted() -> None:
    a, quotient = st.asarray([7, 8, 9]), st.zeros(3, int)
    first, second = np.divmod(a, 4, out=(quotient, None))
    assert first is quotient
    assert quotient.tolist() == [1, 2, 2]
    assert second.tolist() == [3, 0, 1]
    both = np.divmod(a, 4, out=(quotient, rest := st.zeros(3, int)))
    assert both[0] is quotient
    assert both[1] is rest


def test_where_casting_and_ufunc_methods_match_numpy() -> None:
    a = st.asarray([1.0, 2, 3])
    out = st.zeros(3)
    np.add(a, 10, out=out, where=a > 1)
    assert out.tolist() == [0, 12, 13]
    assert np.multiply.outer(a, a).shape == (3, 3)
    assert np.add.accumulate(a).tolist() == [1, 3, 6]
    np.add.at(a, [0, 0, 2], 1)
    assert a.tolist() == [3, 2, 4], "at works in place"
    assert np.maximum.reduce(a) == 4
    with pytest.raises(TypeError, match="int32"):
        np.add(a, 1, out=st.zeros(3, "i4"))


WITH_WHERE = {
    "add": lambda a, b, where: np.add(a, b, where=where, out=np.zeros(3)),
    "add of arrays": lambda a, b, where: np.add(np.asarray(a), np.asarray(b), where=where, out=np.zeros(3)),
    "exp": lambda a, _, where: np.exp(a, where=where, out=np.zeros(3)),
    "add.reduce": lambda a, _, where: np.add.reduce(a, where=where),
    "sum": lambda a, _, where: np.sum(a, where=where),
    "mean": lambda a, _, where: np.mean(a, where=where),
    "std": lambda a, _, where: np.std(a, where=where),
    "max": lambda a, _, where: np.max(a, where=where, initial=0),
    "initial": lambda a, b, where: np.add.reduce(a, initial=b[0], where=where),
}


@pytest.mark.parametrize("function", WITH_WHERE.values(), ids=WITH_WHERE)
def test_ufunc_options_accept_tensors(function) -> None:
    """Regression: `where=` with a tensor was a RecursionError in every ufunc and reduction."""
    arrays = np.array([1.0, 2, 4]), np.array([10.0, 20, 40]), np.array([True, False, True])
    np.testing.assert_array_equal(function(*map(st.asarray, arrays)), function(*arrays))


@pytest.mark.parametrize("dtype", ALL, ids=name_of)
def test_equality_matches_numpy_for_every_dtype(dtype) -> None:
    array = some_array(dtype)
    other = array[::-1].copy()
    tensor = st.asarray(array)
    for operate in (operator.eq, operator.ne):
        expected = operate(array, other)
        for result in (
            operate(tensor, st.asarray(other)),
            operate(tensor, other),
            operate(array, st.asarray(other)),
        ):
            np.testing.assert_array_equal(result, expected)


def test_equality_with_other_objects_matches_numpy() -> None:
    tensor = st.asarray([1, 2])
    assert (tensor == None).tolist() == [False, False]  # noqa: E711
    assert (tensor != None).tolist() == [True, True]  # noqa: E711
    assert (st.asarray(["a", "b"]) == "a").tolist() == [True, False]
    if np.lib.NumpyVersion(np.__version__) >= "1.25.0":
        assert (tensor == "a").tolist() == [False, False]


def test_classes_with_array_ufunc_take_precedence() -> None:
    class Wants:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "radd"

        def __eq__(self, other):
            return "eq"

        __hash__ = None

    assert st.ones(2) + Wants() == "radd"
    assert (st.ones(2) == Wants()) == "eq"
