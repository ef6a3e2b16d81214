"""The rules of CUDA's driver on which shmtensor depends: the simulated driver (tests/cuda/sim) follows them.

Texts in quotation marks are from the comments of NVIDIA's cuda.h if no other source is named;
test_assumed_rules.py compares them with the header. What NVIDIA does not document, or permits both ways, is
"seen" where an H200 and an H100, both with driver 580.159 (CUDA 13.0), do it (``probes.facts``;
test_gpu_programs.py compares the simulator's answers with those in bench/results), and else "assumed".
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["RULES", "Rule", "settings"]


class Rule(NamedTuple):
    """One rule, and why shmtensor is right with a driver that does otherwise.

    Parameters
    ----------
    other_way
        The setting with which the simulator does otherwise, or the reason why that cannot matter.
    """

    text: str
    source: str
    other_way: str = ""


RULES = (
    # Contexts.
    Rule(
        "cuCtxSynchronize waits for one context",
        '"Blocks until the current context has completed all preceding requested tasks."',
    ),
    Rule(
        "memory has its address in the context that allocated it only, virtual memory in all "
        "contexts of the devices that have access",
        'programming guide, "Driver API", "Context": "each context has its own distinct address '
        'space"; UCX, `cuda_copy_md.c`: virtual memory and pools have no context',
    ),
    Rule(
        "cuMemFree, and most calls, need a current context",
        "CUDA_ERROR_INVALID_CONTEXT among their results",
    ),
    Rule(
        "a destroyed context stays current in other threads, whose calls fail",
        '"attempting to access ctx from those threads will result in the error '
        'CUDA_ERROR_CONTEXT_IS_DESTROYED"',
    ),
    Rule(
        "in a forked child each call returns CUDA_ERROR_NOT_INITIALIZED",
        "seen",
        "shmtensor raises without a call (test_own_memory.py)",
    ),
    # Memory.
    Rule(
        "new memory contains zeros",
        "seen",
        "SHMTENSOR_SIM_NEW_MEMORY=random",
    ),
    Rule(
        "cuMemFree and cuIpcCloseMemHandle wait until work on the device has ended",
        'seen; of cuMemFree: "this API may perform implicit synchronization"',
        "SHMTENSOR_SIM_FREEING=immediate",
    ),
    Rule(
        "cuMemUnmap and cuMemRelease do not wait",
        "seen",
    ),
    Rule(
        "a freed address is soon given to other memory",
        "seen",
    ),
    Rule(
        "BUFFER_ID",
        '"guaranteed to be unique within the process"',
    ),
    Rule(
        "RANGE_START_ADDR and RANGE_SIZE of virtual memory are those of the reservation",
        '"not necessarily the address of the mapped region, but the address of the mappable address range"',
    ),
    Rule(
        "cuMemGetAddressRange gives one chunk of a reservation",
        '"To retrieve the size of the mapped region, see cuMemGetAddressRange"; UCX #11461',
    ),
    Rule(
        "cuPointerGetAttributes of an unknown address succeeds",
        '"will not return an error when the ptr encountered is not a valid CUDA pointer"',
    ),
    Rule(
        "IS_LEGACY_CUDA_IPC_CAPABLE is true of memory of cuMemAlloc",
        '"suitable for cudaIpcGetMemHandle", seen; false on some drivers (UCX, `cuda_copy_md.c`)',
        "SHMTENSOR_SIM_IPC_CAPABLE=0",
    ),
    # Virtual memory.
    Rule(
        "it is freed with its last mapping, handle and descriptor, in whatever process",
        '"freed when all outstanding mappings to the memory are unmapped and when all outstanding'
        " references to the handle (including it's shareable counterparts) are also released\"",
    ),
    Rule(
        "cuMemMap maps a whole allocation, at addresses without a mapping",
        '"currently must be zero"; "can only create mappings on VA range reservations that are '
        'not currently mapped"',
    ),
    Rule(
        "cuMemUnmap unmaps whole mappings, of which it accepts several",
        '"cannot unmap a sub-range of an address range mapped"; several: cuda-core does so',
    ),
    Rule(
        "a new mapping has no access; access is by device",
        '"all mappings start with no accessibility setup"; a copy by another device fails: '
        "cuda-core's tests of peer access",
    ),
    Rule(
        "a copy to a mapping for reading is refused (error 1)",
        "seen; a kernel that writes there ends the context (error 700), but the simulator has no kernels",
        "no such call (test_own_memory.py)",
    ),
    Rule(
        "cuMemRetainAllocationHandle counts",
        '"must be released with corresponding number of calls to cuMemRelease"',
    ),
    Rule(
        "imported memory cannot be exported again (error 1)",
        "seen",
        "SHMTENSOR_SIM_REEXPORT=1 (test_refused_exports.py)",
    ),
    Rule(
        "a descriptor is not close-on-exec, without descriptors the export fails (error 304)",
        "the worse way: seen with close-on-exec; 304 seen",
    ),
    Rule(
        "memory of a GPU that the process does not see cannot be imported",
        '"If the current process cannot support the memory described by this shareable handle, '
        'this API will error as CUDA_ERROR_NOT_SUPPORTED."',
    ),
    # Handles.
    Rule(
        "an allocation can be exported again",
        '"may be called multiple times on an allocation without adverse effects"',
    ),
    Rule(
        "a handle that is open already gives the same address, and counts",
        '"the existing device pointer is returned"',
    ),
    Rule(
        "one context for each device opens the handles of a process",
        '"may only be opened by one CUcontext per CUdevice per other process"; error 400 is seen',
        "error texts name 201, 400 (test_unsupported_machines.py)",
    ),
    Rule(
        "a process cannot open its own handles (error 201), nor those of a process with its pid "
        "in another PID namespace",
        "seen",
        "no such call (test_user_memory.py)",
    ),
    Rule(
        "memory that its owner has freed is not opened",
        '"will result in undefined behavior" to free what is open',
        "owners are kept until it is closed",
    ),
    Rule(
        "memory of an ended process is not opened (error 400)",
        "seen",
        "SHMTENSOR_SIM_DEAD_MEMORY=opens",
    ),
    Rule(
        "what is open stays valid after the owner's end",
        "seen",
    ),
    Rule(
        "without IPC_EVENT_SUPPORTED, cuIpcGetMemHandle sets the memory to zero",
        "pytorch#156618, #136200",
        "no such call (test_refused_exports.py)",
    ),
    # Events and copies.
    Rule(
        "an event and the stream that records it are of one context, the stream that waits need not be",
        '"must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is returned"; "may be'
        ' from a different context or device"',
    ),
    Rule(
        "a wait is for the work that was captured when it was called",
        '"are not affected by later calls to cuEventRecord()"',
    ),
    Rule(
        "both processes may record and query an interprocess event",
        '"may be used in either process"',
    ),
    Rule(
        "an event does not complete if its maker ends before its work",
        "seen",
        "SHMTENSOR_SIM_DEAD_EVENT=completes",
    ),
    Rule(
        "the event of a killed process can be opened",
        "seen",
        "the maker is killed at the call (test_killed_makers.py)",
    ),
    Rule(
        "an event is not opened if its file in `/dev/shm` is missing (error 205)",
        "seen with another `/dev/shm`; a destroyed event was opened there, which the simulator refuses",
        "events are kept (test_events.py)",
    ),
    Rule(
        "the maker's destruction of an open event is an error of the program",
        '"Performing operations on the imported event after the exported event has been freed '
        'with cuEventDestroy will result in undefined behavior."',
        "events are kept (test_events.py)",
    ),
    Rule(
        "a copy to or from pageable memory is asynchronous",
        'seen from such memory (1 MiB), while one to it waited (64 KiB); "API synchronization '
        'behavior" of CUDA 12.2 on: "might be synchronous", before it "will return only once the '
        'copy has completed"',
        "SHMTENSOR_SIM_PAGEABLE=sync",
    ),
    # Captures.
    Rule(
        "a thread in the mode RELAXED may make potentially unsafe calls",
        '"The local thread is not prohibited from potentially unsafe API calls"',
    ),
    Rule(
        "of the calls of shmtensor, all that make, free or ask for an object are potentially unsafe",
        "seen of cuMemAlloc, cuMemFree, and the queries and waits for events and streams; the rest assumed",
        "SHMTENSOR_SIM_UNSAFE_CALLS=seen",
    ),
    Rule(
        "cuStreamIsCapturing of the legacy stream reports captures of blocking streams, and invalidates none",
        '"The blocking stream capture is not invalidated."',
    ),
    # Pinned host memory, and events of a context.
    Rule(
        "a copy from host memory that leaves what was registered by one call fails (error 1)",
        "seen",
        "each block is in one registration",
    ),
    Rule(
        "cuMemHostUnregister waits until work on the device has ended",
        "seen",
        "a block is released after the work of all devices (test_pinned_memory.py)",
    ),
    Rule(
        "the device reads the old pages of registered memory after the file's were released and made again",
        "seen",
        "not simulated; memory is registered again (test_pinned_memory.py)",
    ),
    Rule(
        "cuCtxRecordEvent covers streams that do not synchronize with the default one",
        '"Captures in hEvent all the activities of the context hCtx at the time of this call."',
    ),
    Rule(
        "cuCtxRecordEvent is refused during a capture, which it invalidates",
        '"In such a case, the call will invalidate all the conflicting captures."',
    ),
)


def settings() -> set[str]:
    """Return the settings with which the simulator does otherwise."""
    return {name for rule in RULES for name in re.findall(r"SHMTENSOR_SIM_\w+=\w+", rule.other_way)}
