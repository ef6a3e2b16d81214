"""One dtype of every kind that can be shared."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

NUMBERS = [np.dtype(code) for code in "?bBhHiIlLqQefdgFDG"]
OTHERS = [
    np.dtype(text)
    for text in (">i2", ">u8", ">f4", ">f8", ">c16", "S5", "U3", ">U3", "M8[s]", ">M8[D]", "m8[us]")
]
STRUCTURED = [
    np.dtype([("a", "i4"), ("b", ">f8")]),
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("when", "M8[s]"), ("name", "U2")]),
    np.dtype([("grid", "f4", (2, 3)), ("inner", [("x", "u2"), ("y", "S3")])]),
    np.dtype({"names": ["a", "b"], "formats": ["i2", "i2"], "offsets": [4, 0], "itemsize": 16}),
]
FOREIGN = [
    np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4")
]

VOID = [np.dtype("V7"), np.dtype([(("the title", "name"), "i4")])]

ALL = [*NUMBERS, *OTHERS, *STRUCTURED, *FOREIGN, *VOID]


def name_of(dtype: object) -> str:
    return str(dtype).replace(" ", "")


every_dtype = pytest.mark.parametrize("dtype", ALL, ids=name_of)


def some_array(dtype: np.dtype, shape: tuple[int, ...] = (3, 4)) -> np.ndarray:
    """Return an array whose elements differ and whose bytes are valid for the dtype."""
    size = int(np.prod(shape))
    if dtype.names:
        array = np.zeros(shape, dtype)
        for name in dtype.names:
            field = array[name]
            field[...] = some_array(field.dtype, field.shape)
        return array
    numbers = np.arange(size).reshape(shape)
    if dtype.kind == "V" and dtype.isbuiltin:
        return np.frombuffer(bytes(i % 251 for i in range(size * dtype.itemsize)), dtype).reshape(shape)
    if dtype.kind == "M":
        return numbers.astype("M8[D]").astype(dtype)
    return (numbers % 7).astype(dtype)


def same_elements(left: np.ndarray, right: np.ndarray) -> bool:
    """Return True if shape, dtype and elements are equal, bit by bit except for padding."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.names:
        return all(same_elements(left[name], right[name]) for name in left.dtype.names)
    return _without_padding(left) == _without_padding(right)


def _without_padding(array: np.ndarray) -> bytes:
    if array.dtype.char not in "gG" or np.finfo(np.longdouble).nmant != 63:
        return array.tobytes()
    return np.frombuffer(array.tobytes(), "u1").reshape(-1, 16)[:, :10].tobytes()  # x87: 10 bytes of 16
