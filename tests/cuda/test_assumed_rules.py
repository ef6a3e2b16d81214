"""What NVIDIA does not document is right either way: tests run with the other way of each rule, too.

driver_rules.py lists the rules.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda import (
    device,
    driver_rules,
    test_arrays,
    test_contexts,
    test_copies,
    test_copy_patterns,
    test_deferred_release,
    test_events,
    test_graph_captures,
    test_own_memory,
    test_user_memory,
    test_vmm_export,
    workers,
)
from tests.cuda.test_headers import PACKAGES, include_folder
from tests.helpers.children import run_python

DEVICE_ADDRESS = ctypes.c_uint64


def latch_for(seconds: float) -> device.Latch:
    """Block the default stream for a time."""
    latch = device.Latch(f"latch{os.getpid()}").close()
    threading.Timer(seconds, latch.open).start()
    return latch


def copy_to_pageable_memory() -> Any:
    array, host = device.Array(np.full(1, 7, "u1")), np.zeros(1, "u1")
    latch_for(0.2)
    size = ctypes.c_size_t(1)
    device.check(
        device.library().cuMemcpyDtoHAsync_v2(
            ctypes.c_void_p(host.ctypes.data), DEVICE_ADDRESS(array.pointer), size, None
        )
    )
    found = int(host[0])
    device.check(device.library().cuCtxSynchronize())
    return found


def read_new_memory() -> Any:
    pointer = DEVICE_ADDRESS()
    device.check(device.library().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4 << 20)))
    return device.read(pointer.value, 4)


def free_during_work() -> Any:
    array = device.Array([1.0])
    latch = latch_for(0.2)
    del array
    waited = latch.is_open()
    device.check(device.library().cuCtxSynchronize())
    return waited


def make_and_wait(inbox: Any, outbox: Any) -> None:
    """Export memory, and an event that does not complete."""
    array, driver, event = device.Array([1.0]), device.library(), ctypes.c_void_p()
    memory, recorded = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    device.check(driver.cuIpcGetMemHandle(memory, DEVICE_ADDRESS(array.base)))
    device.check(driver.cuEventCreate(ctypes.byref(event), 6))
    device.check(driver.cuIpcGetEventHandle(recorded, event))
    device.Latch("never").close()
    device.check(driver.cuEventRecord(event, None))
    outbox.put((memory.raw, recorded.raw))
    inbox.get()


class Bytes(ctypes.Structure):
    """A handle, which is given by value."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def of_killed_process() -> tuple[Bytes, Bytes]:
    pair = workers.Pair(make_and_wait)
    memory, event = pair.get()
    pair.kill()
    return Bytes.from_buffer_copy(memory), Bytes.from_buffer_copy(event)


def open_memory_of_killed_process() -> Any:
    memory, _ = of_killed_process()
    return device.library().cuIpcOpenMemHandle_v2(ctypes.byref(DEVICE_ADDRESS()), memory, 1)


def query_event_of_killed_process() -> Any:
    _, exported = of_killed_process()
    event = ctypes.c_void_p()
    device.check(device.library().cuIpcOpenEventHandle(ctypes.byref(event), exported))
    return device.library().cuEventQuery(event)


def create_stream_during_a_capture() -> Any:
    driver, stream, other = device.library(), ctypes.c_void_p(), ctypes.c_void_p()
    device.check(driver.cuStreamCreate(ctypes.byref(stream), 1))
    device.check(driver.cuStreamBeginCapture_v2(stream, 0))
    return driver.cuStreamCreate(ctypes.byref(other), 1)


def ask_whether_exportable() -> Any:
    capable, array = ctypes.c_int(), device.Array([1.0])
    names, values = (ctypes.c_int * 1)(10), (ctypes.c_void_p * 1)(ctypes.addressof(capable))
    device.check(device.library().cuPointerGetAttributes(1, names, values, DEVICE_ADDRESS(array.pointer)))
    return capable.value


# By the setting: a function whose result it changes, and tests that use the rule.
RULES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "SHMTENSOR_SIM_PAGEABLE=sync": (
        copy_to_pageable_memory,
        [
            test_copies.test_copies_work_in_every_direction,
            test_copies.test_device_views_match_numpy,
            test_copy_patterns.test_overlapping_copy_matches_numpy,
        ],
    ),
    "SHMTENSOR_SIM_NEW_MEMORY=random": (
        read_new_memory,
        [
            test_copies.test_device_tensors_are_created_like_host_tensors,
            test_own_memory.test_round_trip_returns_the_same_memory,
        ],
    ),
    "SHMTENSOR_SIM_FREEING=immediate": (
        free_during_work,
        [
            test_contexts.test_send_and_release_wait_for_work_of_the_current_context,
            test_deferred_release.test_user_memory_is_kept_until_reader_can_wait,
            test_user_memory.test_owner_gets_its_memory_after_the_readers_work,
            test_vmm_export.test_killed_reader_and_unread_message_leak_nothing,
        ],
    ),
    "SHMTENSOR_SIM_DEAD_MEMORY=opens": (
        open_memory_of_killed_process,
        [test_user_memory.test_producer_that_exits_first_is_reported],
    ),
    "SHMTENSOR_SIM_DEAD_EVENT=completes": (
        query_event_of_killed_process,
        [
            test_events.test_event_of_exited_process_raises_producer_gone,
            test_events.test_events_of_unread_messages_and_killed_readers_are_reused,
        ],
    ),
    "SHMTENSOR_SIM_UNSAFE_CALLS=seen": (
        create_stream_during_a_capture,
        [
            test_graph_captures.test_calls_do_not_invalidate_a_capture,
            test_graph_captures.test_events_of_other_processes_do_not_invalidate_a_capture,
        ],
    ),
    "SHMTENSOR_SIM_IPC_CAPABLE=0": (
        ask_whether_exportable,
        [
            test_arrays.test_foreign_dlpack_is_shared_without_copy,
            test_user_memory.test_user_array_is_shared_without_copy,
        ],
    ),
}
ELSEWHERE = {"SHMTENSOR_SIM_REEXPORT=1"}  # test_refused_exports.py has it both ways
PAIRS = [(rule, test) for rule, (_, tests) in RULES.items() for test in tests]


def other_way(rule: str) -> dict[str, str]:
    return dict([rule.split("=")])


@pytest.mark.thorough
@pytest.mark.parametrize(("rule", "test"), PAIRS, ids=[f"{rule}-{test.__name__}" for rule, test in PAIRS])
def test_shmtensor_is_right_the_other_way(simulator, rule, test) -> None:
    where, name = test.body.__module__, test.body.__name__
    simulator.run(f"from {where} import {name} as test\ntest.body()", **other_way(rule))


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
def test_setting_changes_the_rule(simulator, rule) -> None:
    probe, _ = RULES[rule]
    call = f"from {__name__} import {probe.__name__} as f\nif __name__ == '__main__': print(f())"
    results = [run_python(call, env=simulator.env | more) for more in ({}, other_way(rule))]
    assert [done.returncode for done in results] == [0, 0], results
    assert results[0].stdout != results[1].stdout


def test_list_of_rules_has_the_settings() -> None:
    assert driver_rules.settings() == RULES.keys() | ELSEWHERE


QUOTED = re.compile('"([^"]+)"')
OTHERS = re.compile("programming guide|API synchronization behavior")  # not in the header


def words(text: str) -> str:
    """Return a text without the marks of comments in cuda.h."""
    return " ".join(re.sub(r"\\[pe]\b|::|^ ?\*", " ", text, flags=re.MULTILINE).split())


def test_quotations_are_from_nvidias_header() -> None:
    header = words((include_folder(PACKAGES["CUDA 13"]) / "cuda.h").read_text())
    sources = [source for rule in driver_rules.RULES for source in rule.source.split(";")]
    quoted = [text for source in sources if not OTHERS.search(source) for text in QUOTED.findall(source)]
    assert len(quoted) > 20
    assert [text for text in quoted if text not in header] == []
