"""Messages of `probes.storm`: tensors whose content follows from a number."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import shmtensor as st
from probes.deaths import Users
from probes.driver import CHUNK, array_interface, call, create, driver, map_chunk

if TYPE_CHECKING:
    import random

LARGE = 72 << 20  # more than the chunks in which memory of shmtensor grows at first
ODD = np.uint64(0x9E3779B97F4A7C15)
Content = tuple[int, bool]  # a number, and whether all bytes are its lowest one


class Letter(NamedTuple):
    """A message."""

    sender: int  # its process id
    by_event: bool
    alone: bool  # whoever receives it is the only one that uses the tensors
    contents: tuple[Content, ...]
    tensors: list[Any]


class Exportable(Users):
    """The same in virtual memory, as torch's expandable segments: it outlives its process."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // CHUNK) * CHUNK
        handle = create(self.size)
        self.pointer = map_chunk(handle, self.size)
        call("cuMemRelease", handle)
        self.__cuda_array_interface__ = array_interface(self.pointer, size)
        Users.alive += 1

    def __del__(self) -> None:
        Users.alive -= 1
        driver().cuCtxSynchronize()
        driver().cuMemUnmap(self.pointer, ctypes.c_size_t(self.size))
        driver().cuMemAddressFree(self.pointer, ctypes.c_size_t(self.size))


def new_content(rng: random.Random) -> Content:
    return rng.getrandbits(60), False


def expected(content: Content, size: int) -> Any:
    """Return the bytes that a tensor must have."""
    number, uniform = content
    if uniform:
        return np.full(size, number & 255, np.uint8)
    return (np.arange(size // 8, dtype=np.uint64) * ODD + np.uint64(number)).view(np.uint8)


def new_tensor(rng: random.Random) -> tuple[Any, Content]:
    """Return a tensor of shmtensor's or a user's memory; work that fills it may still be running."""
    size = LARGE if rng.random() < 0.003 else 8 * round(2 ** rng.uniform(7, 20))  # 1 KiB to 8 MiB
    kind = rng.random()
    if kind < 0.1:
        return st.zeros(size, "u1", device="cuda"), (0, True)
    if kind < 0.5:
        tensor = st.empty(size, "u1", device="cuda")
    else:
        tensor = st.asarray(Users(size) if kind < 0.9 else Exportable(size))
    number, uniform = new_content(rng)[0], rng.random() < 0.3
    if uniform:
        place = ctypes.c_uint64(tensor.data_ptr())
        call("cuMemsetD8Async", place, ctypes.c_ubyte(number & 255), ctypes.c_size_t(size), None)
    else:
        tensor.copy_(expected((number, False), size))
    return tensor, (number, uniform)


def mismatch(letter: Letter, which: int) -> str:
    """Compare all bytes of a tensor; return what is wrong."""
    tensor = letter.tensors[which]
    got, wanted = tensor.cpu().numpy(), expected(letter.contents[which], tensor.size)
    if np.array_equal(got, wanted):
        return ""
    wrong = np.flatnonzero(got != wanted)
    bytes_there = got[wrong[:16]].tobytes().hex()
    about = letter._replace(tensors=[])
    return f"wrong data: {wrong.size} of {tensor.size} bytes, from {wrong[0]}: {bytes_there}; {about}"
