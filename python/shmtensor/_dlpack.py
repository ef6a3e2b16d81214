"""DLPack's codes: types, devices, and the default stream of CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np

HOST, CUDA, CUDA_MANAGED = 1, 2, 13  # DLDeviceType
DEFAULT_STREAM = 1  # as in __cuda_array_interface__; 0 is ambiguous there

UNSIGNED, BFLOAT16 = 1, 4  # DLDataTypeCode
_CODES = {"i": 0, "u": UNSIGNED, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode by NumPy's kind
_KINDS = {code: kind for kind, code in _CODES.items()}


def code_of(dtype: np.dtype[Any]) -> int | None:
    """Return DLPack's type code of a dtype, None if it has none."""
    if not dtype.isnative:
        return None
    return BFLOAT16 if dtype.name == "bfloat16" else _CODES.get(dtype.kind)


def dtype_of(code: int, bits: int) -> np.dtype[Any]:
    """Return the dtype of a type code and its bits.

    Raises
    ------
    BufferError
        If NumPy has no such dtype. It has bfloat16 where ml_dtypes is imported.
    """
    try:
        if bits % 8 == 0:
            if code == BFLOAT16:
                return np.dtype("bfloat16")
            return np.dtype(np.bool_ if _KINDS[code] == "b" else f"{_KINDS[code]}{bits // 8}")
    except (KeyError, TypeError):
        pass
    msg = f"DLPack type (code {code}, {bits} bits) has no NumPy dtype"
    raise BufferError(msg)


def is_versioned(max_version: tuple[int, int] | None) -> bool:
    """Return True if a consumer that supports `max_version` takes a versioned capsule."""
    return max_version is not None and max_version[0] >= 1
