"""tvm-ffi, which reads tensors by DLPack's table of C functions."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tvm_ffi

import shmtensor as st
from shmtensor._tensor.protocols import Protocols


@pytest.fixture(autouse=True)
def no_method(monkeypatch):
    """Only the table is left."""
    monkeypatch.delattr(Protocols, "__dlpack__")
    monkeypatch.delattr(Protocols, "__dlpack_device__")


def test_tensor_is_passed_to_a_function_as_its_memory() -> None:
    tensor = st.zeros((3, 4), "float32")
    seen = []

    @tvm_ffi.convert
    def function(argument) -> None:
        seen.append(argument.shape)
        np.from_dlpack(argument)[...] = 7

    function(tensor)
    assert tuple(seen[0]) == (3, 4)
    assert tensor.tolist() == [[7] * 4] * 3


def test_tensor_is_imported_without_a_copy() -> None:
    tensor = st.zeros((3, 4), "float32")
    imported = tvm_ffi.from_dlpack(tensor)
    np.from_dlpack(imported)[1] = 5
    assert tensor[1].tolist() == [5] * 4
    before = st.stats()["blocks"]
    del tensor
    gc.collect()
    assert st.stats()["blocks"] == before
    del imported
    gc.collect()
    assert st.stats()["blocks"] == before - 1
