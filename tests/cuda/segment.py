"""Virtual memory like torch's expandable segments: adjacent chunks."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

from tests.cuda import device
from tests.cuda.device import check, library

DESCRIPTOR, FABRIC = 1, 8


class Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", ctypes.c_int * 2),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class Access(ctypes.Structure):
    _fields_ = (("location", ctypes.c_int * 2), ("flags", ctypes.c_int))


class Segment:
    """A range of addresses with `chunks` mapped chunks and room for `spare`; unmapped with the last array."""

    alive = 0

    def __init__(self, chunks: int, handle_types: int = DESCRIPTOR, spare: int = 1) -> None:
        driver = library()
        properties = Properties(1, handle_types, (1, 0))
        granularity = ctypes.c_size_t()
        check(driver.cuMemGetAllocationGranularity(ctypes.byref(granularity), ctypes.byref(properties), 0))
        self.chunk = granularity.value
        self.size = chunks * self.chunk
        self.reserved = self.size + spare * self.chunk
        pointer = ctypes.c_uint64()
        size, none = ctypes.c_size_t(self.reserved), ctypes.c_uint64(0)
        check(driver.cuMemAddressReserve(ctypes.byref(pointer), size, ctypes.c_size_t(0), none, none))
        self.base = pointer.value
        for place in range(self.base, self.base + self.size, self.chunk):
            handle = ctypes.c_uint64()
            chunk = ctypes.c_size_t(self.chunk)
            check(driver.cuMemCreate(ctypes.byref(handle), chunk, ctypes.byref(properties), none))
            check(driver.cuMemMap(ctypes.c_uint64(place), chunk, ctypes.c_size_t(0), handle, none))
            check(driver.cuMemRelease(handle))
        access = Access((1, 0), 3)
        size = ctypes.c_size_t(self.size)
        check(driver.cuMemSetAccess(pointer, size, ctypes.byref(access), ctypes.c_size_t(1)))
        self.maker = os.getpid()
        Segment.alive += 1

    def __del__(self) -> None:
        Segment.alive -= 1
        if os.getpid() != self.maker:
            return  # a forked child, which may destroy its parent's objects, cannot use the driver
        driver, base = library(), ctypes.c_uint64(self.base)
        driver.cuCtxSynchronize()
        check(driver.cuMemUnmap(base, ctypes.c_size_t(self.size)))
        check(driver.cuMemAddressFree(base, ctypes.c_size_t(self.reserved)))


class Part:
    """An array in a segment."""

    def __init__(self, segment: Segment, offset: int, values: Any) -> None:
        values = np.ascontiguousarray(values)
        self.segment, self.pointer = segment, segment.base + offset
        self.shape, self.dtype = values.shape, values.dtype
        device.write(self.pointer, values.tobytes())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": 1,
        }

    def read(self) -> Any:
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        return np.frombuffer(device.read(self.pointer, size), self.dtype).reshape(self.shape)
