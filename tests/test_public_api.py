"""The public surface: names, docstrings, the standard module's names and signatures."""

from __future__ import annotations

import inspect
import multiprocessing

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python


def words(text: str) -> list[str]:
    return text.split()


PUBLIC = words("""
    Barrier BoundedSemaphore Broadcast BroadcastReader BuildError Condition CorruptDataError CudaError
    CudaUnavailable Event Latest Lock NotPublishedError OutOfSharedMemory OwnerDied ProducerGone Queue RLock
    Semaphore SessionError SharedCache SharedDict SharedList
    ShmTensorError ShutDown StaleHandleError Storage Tensor __version__ arange asarray atomic attach
    concatenate cuda doctor empty empty_like errors from_dlpack from_numpy frombuffer full full_like
    futures gc install load memory multiprocessing once ones ones_like publish set_limit share stack stats
    uninstall unpublish wait_for_change zeros zeros_like
""")
PUBLIC_MP = words("""
    Array AuthenticationError Barrier BoundedSemaphore BufferTooShort Condition Event JoinableQueue
    Lock Manager Pipe Pool Process ProcessContext ProcessError ProcessException
    ProcessExitedException ProcessRaisedException Queue RLock RawArray RawValue Semaphore
    SimpleQueue SpawnContext TaskMemory TaskTimeout TimeoutError Value WorkerLost active_children
    allow_connection_pickling cpu_count current_process explain_start_method freeze_support
    get_all_sharing_strategies get_all_start_methods get_buffer_threshold get_context get_logger
    get_sharing_strategy get_start_method log_to_stderr own_process parent_process reducer
    set_buffer_threshold set_executable set_forkserver_preload set_server_preload
    set_sharing_strategy set_start_method spawn start_processes
""")
PUBLIC_ATOMIC = words("add compare_exchange exchange load maximum minimum store wait_for_change")
STANDARD = [name for name in dir(multiprocessing) if not name.startswith("_") and name != "sys"]
METHODS = {
    st.Tensor: words("""
        T as_readonly clone copy copy_ cpu cupy data_ptr device dtype fill_ flatten is_contiguous
        is_shared item itemsize nbytes ndim numpy ravel readonly release reshape shape share_memory_
        size squeeze storage storage_offset strides swapaxes to tolist transpose view zero_
    """),
    st.Storage: words("""
        clone copy_ data_ptr device filename fill_ from_file is_shared nbytes readonly share_memory_
        tobytes
    """),
    st.SharedList: ["count", "index", "nbytes", "of_bytes", "of_strings"],
    st.SharedDict: ["get", "items", "keys", "nbytes", "to_dict", "values"],
    st.memory.MemoryMonitor: ["add", "history", "measure", "plot", "table", "total_pss"],
}


@pytest.mark.parametrize(
    "name",
    words("""
        connection context dummy managers pool process queues reduction shared_memory sharedctypes
        synchronize util
    """),
)
def test_submodules_of_the_standard_library_are_importable(name) -> None:
    """Regression: `from shmtensor.multiprocessing.managers import BaseManager` was an ImportError."""
    done = run_python(f"""
        import multiprocessing.{name} as standard
        import shmtensor.multiprocessing.{name} as module
        import shmtensor.multiprocessing as mp
        from shmtensor.multiprocessing import {name}
        assert module is {name} is mp.{name}
        for public in vars(standard):
            getattr(module, public)
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "names"),
    [(st, PUBLIC), (st.atomic, PUBLIC_ATOMIC), (mp, PUBLIC_MP)],
    ids=["shmtensor", "atomic", "multiprocessing"],
)
def test_public_names_match_list(module, names) -> None:
    assert sorted(module.__all__) == sorted(names)
    assert sorted(dir(module)) == sorted(names)
    assert all(getattr(module, name) is not None for name in names)


def test_missing_attribute_error_names_it() -> None:
    for module in (st, mp):
        with pytest.raises(AttributeError, match=f"{module.__name__}.* 'nothing'"):
            _ = module.nothing


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_public_methods_and_properties_match_list(kind) -> None:
    there = [name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)]
    assert sorted(there) == sorted(METHODS[kind])


def described() -> dict[str, object]:
    """Return all public objects of the package by their full names."""
    things: dict[str, object] = {"st": st, "mp": mp}
    things |= {f"st.{name}": getattr(st, name) for name in PUBLIC if name != "__version__"}
    things |= {f"{kind.__name__}.{name}": getattr(kind, name) for kind in METHODS for name in METHODS[kind]}
    things |= {f"st.atomic.{name}": getattr(st.atomic, name) for name in PUBLIC_ATOMIC}
    things |= {f"mp.{name}": getattr(mp, name) for name in PUBLIC_MP}
    for name in ("connection", "context", "errors", "process", "queues"):
        module = getattr(mp, name)
        things |= {f"mp.{name}": module} | {
            f"mp.{name}.{one}": getattr(module, one) for one in module.__all__
        }
    for name in ("Queue", "SimpleQueue", "JoinableQueue"):
        things[f"mp.queues.{name}.put"] = getattr(getattr(mp.queues, name), "put")  # noqa: B009
    return things


@pytest.mark.parametrize(("name", "thing"), described().items(), ids=described())
def test_public_objects_have_docstrings(name, thing) -> None:
    home = thing.__name__ if inspect.ismodule(thing) else getattr(thing, "__module__", "shmtensor")
    if home.startswith("multiprocessing"):
        return  # the standard module's own
    text = thing.__doc__
    assert text, f"{name} has no docstring"
    text = inspect.cleandoc(text)
    first = text.splitlines()[0]
    assert first.endswith((".", "?")), f"{name}: the first line is not a sentence: {first}"


@pytest.mark.parametrize("name", sorted({*STANDARD, *multiprocessing.__all__}))
def test_every_standard_name_is_provided(name) -> None:
    assert hasattr(mp, name)
    standard, ours = getattr(multiprocessing, name), getattr(mp, name)
    if not callable(standard):
        return
    assert callable(ours)
    try:
        expected = inspect.signature(standard)
    except ValueError:
        assert ours is standard
        return
    check_signature(name, expected, inspect.signature(ours))


@pytest.mark.parametrize("name", ["Queue", "JoinableQueue", "SimpleQueue", "Process", "PipeEnd"])
def test_methods_accept_the_standard_parameters(name) -> None:
    if name == "PipeEnd":
        standard, ours = multiprocessing.connection.Connection, mp.connection.PipeEnd
    elif name == "Process":
        standard, ours = multiprocessing.Process, mp.Process
    else:
        standard, ours = getattr(multiprocessing.queues, name), getattr(mp.queues, name)
    for method, function in inspect.getmembers(standard, inspect.isfunction):
        if not method.startswith("_"):
            expected = inspect.signature(function)
            given = inspect.signature(getattr(ours, method))
            if name.endswith("Queue"):
                assert accepts(given, expected), f"{name}.{method}{given} does not accept {expected}"
            else:
                check_signature(f"{name}.{method}", expected, given)


def accepts(ours: inspect.Signature, expected: inspect.Signature) -> bool:
    """Return True if ours begins with the same parameters; `put` calls its object `item`."""

    def plain(signature: inspect.Signature) -> list[tuple]:
        return [(one.name.replace("obj", "item"), one.default) for one in signature.parameters.values()]

    return plain(ours)[: len(plain(expected))] == plain(expected)


def check_signature(name: str, expected: inspect.Signature, ours: inspect.Signature) -> None:
    """Compare two signatures; ours may have more parameters that are given by name only."""

    def plain(signature: inspect.Signature) -> list[tuple]:
        return [
            (one.name, one.kind, one.default)
            for one in signature.parameters.values()
            if one.kind != one.KEYWORD_ONLY or one.name in expected.parameters
        ]

    assert plain(ours) == plain(expected), f"{name}{ours} is not {name}{expected}"


def test_shared_ctypes_accept_numbers_of_numpy() -> None:
    assert list(mp.Array("i", np.int64(2))) == [0, 0]
    with pytest.raises(TypeError):
        mp.RawArray("i", 2.0)
    assert mp.Value("i", 3, lock=1).get_lock() is not None  # type: ignore[arg-type]


def test_standard_submodules_are_attributes() -> None:
    program = """
        import multiprocessing.pool, multiprocessing.managers, multiprocessing.shared_memory
        import shmtensor.multiprocessing as mp
        assert mp.pool.ThreadPool is multiprocessing.pool.ThreadPool
        assert issubclass(mp.pool.Pool, multiprocessing.pool.Pool)
        assert mp.shared_memory.SharedMemory is multiprocessing.shared_memory.SharedMemory
        assert mp.connection.wait is multiprocessing.connection.wait
        assert mp.context.TimeoutError is multiprocessing.TimeoutError
        assert mp.queues.Empty is multiprocessing.queues.Empty
        from shmtensor.multiprocessing import managers, process, util
    """
    output(run_python(program))


def test_standard_submodules_can_be_imported() -> None:
    """Regression: CPython's test of shared memory raised ImportError unless it had imported them before."""
    program = """
        import sys
        from shmtensor.multiprocessing import shared_memory, managers, pool
        import multiprocessing
        assert pool.ThreadPool is multiprocessing.pool.ThreadPool
        assert managers is multiprocessing.managers
        import shmtensor.multiprocessing as mp
        assert not hasattr(mp, "nothing") and not hasattr(mp, "popen_spawn_win32")
    """
    output(run_python(program))


def test_module_in_place_of_the_standard_one_says_why_it_cannot_be() -> None:
    """Regression: every use was a RecursionError."""
    program = """
        import sys
        import pytest
        import shmtensor.multiprocessing as mp
        sys.modules["multiprocessing"] = mp
        for use in (
            "from multiprocessing import Pool",
            "from multiprocessing.pool import ThreadPool",
            "import multiprocessing.connection",
            "mp.get_context('fork').Queue()",
        ):
            with pytest.raises(ImportError, match="in place of the standard library's module"):
                exec(use)
    """
    output(run_python(program))


def test_star_import_provides_public_names() -> None:
    names: dict[str, object] = {}
    exec("from shmtensor import *", names)
    assert set(PUBLIC) <= set(names)
