"""Values and arrays of ctypes: types, initial values, structures, strings, slices, without a lock."""
# methods: fork spawn server

import ctypes
import multiprocessing as mp
import sys
from ctypes import Structure, c_double, c_int
from multiprocessing.sharedctypes import Array, RawArray, RawValue, Value, copy


class Point(Structure):
    _fields_ = [("x", c_double), ("y", c_double)]


def modify(n, x, text, points, raw, flag):
    n.value **= 2
    x.value **= 2
    text.value = text.value.upper()
    for point in points:
        point.x **= 2
        point.y **= 2
    raw[:] = [2 * value for value in raw]
    flag.value = True


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    lock = mp.Lock()
    n, x = mp.Value("i", 7), mp.Value(c_double, 1.0 / 3.0, lock=False)
    text = mp.Array("c", b"hello world", lock=lock)
    points = mp.Array(Point, [(1.875, -6.25), (-5.75, 2.0)], lock=lock)
    raw, flag = mp.RawArray("d", 4), mp.Value(ctypes.c_bool, False)
    raw[1:3] = [1.5, 2.5]
    process = mp.Process(target=modify, args=(n, x, text, points, raw, flag))
    process.start()
    process.join()
    print(process.exitcode, n.value, x.value, text.value, [(point.x, point.y) for point in points])
    print(raw[:], flag.value, text.raw, len(points), list(mp.Array("h", range(3))), mp.Array("i", 2)[:])
    print(mp.RawValue("i", 3).value, RawValue(c_int).value, RawArray(c_int, [4, 5])[1], copy(raw)[:])
    own = Value("q", -1, lock=lock)
    print(own.get_lock() is lock, own.value, type(own).__name__, Array("u", "text", lock=False)[:])
    for wrong in (lambda: mp.Value("?x"), lambda: mp.Value("i", 1, lock=5), lambda: mp.Value("i", "x")):
        try:
            wrong()
        except (TypeError, KeyError, AttributeError) as error:
            print(type(error).__name__)
