"""System limits and different clocks: no signal, no hang, an error that names the limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cgroups import MemoryCgroup
from tests.helpers.children import run_command, run_python, write_program

MIB = 1 << 20


@pytest.fixture
def memory_cgroup() -> Iterator[MemoryCgroup]:
    """Create a memory cgroup of 128 MiB."""
    group = MemoryCgroup.make(128 * MIB)
    if group is None:
        pytest.skip("needs the right to make a memory cgroup")
    yield group
    group.remove()


@pytest.mark.thorough
def test_full_memory_cgroup_raises_instead_of_kill(strategy, memory_cgroup) -> None:
    """Beyond its limit the out-of-memory killer would act, in `fallocate` as in a page fault."""
    program = f"""
        import os
        with open("{memory_cgroup.folder}/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
        import numpy as np
        import shmtensor as st

        def refused(size):
            try:
                return st.full(size, 7, np.uint8)
            except st.OutOfSharedMemory as error:
                assert "memory cgroup {memory_cgroup.folder}" in str(error), error

        assert refused({200 * MIB}) is None
        kept = []
        while (tensor := refused({8 * MIB})) is not None:
            kept.append(tensor)
        assert len(kept) >= 3, len(kept)
        assert all((tensor.numpy() == 7).all() for tensor in kept)
        full = len(kept)
        del kept[1:]
        st.gc()
        while (tensor := refused({8 * MIB})) is not None:
            kept.append(tensor)
        assert len(kept) >= full - 1, (len(kept), full)
        print("fine")
    """
    done = run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "fine\n", done


# The kernel leaves less of a small group: there, steps of 16 MiB sufficed for a kill in every run.
@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "count", "size", "rounds"), [(640, 3, 250, 1), (128, 6, 18, 20)])
def test_processes_that_fill_a_memory_cgroup_together_are_not_killed(
    strategy, memory_cgroup, limit, count, size, rounds
) -> None:
    """Regression: each process found enough memory, all of them allocated it, and the kernel killed one."""
    memory_cgroup.set_limit(limit * MIB)
    program = f"""
        import multiprocessing, os
        with open("{memory_cgroup.folder}/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
        import shmtensor as st

        context = multiprocessing.get_context("fork")
        barrier = context.Barrier({count}, timeout=30)

        def fill():
            st.empty(1)
            for _ in range({rounds}):
                barrier.wait()
                kept = []
                try:
                    while True:
                        kept.append(st.empty({size * MIB}, dtype="uint8"))
                except st.OutOfSharedMemory:
                    pass
                barrier.wait()
                kept.clear()
                st.gc()  # or the pages remain

        workers = [context.Process(target=fill) for _ in range({count})]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print({{worker.exitcode for worker in workers}})
    """
    done = run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "{0}\n", done


MAPPINGS = Path(__file__).with_name("mappings_program.py")


@pytest.mark.thorough
def test_exhausted_mapping_limit_is_named(strategy, tmp_path) -> None:
    """At vm.max_map_count, what needs a mapping raises; it works again when mappings are available."""
    program = MAPPINGS
    done = run_command([sys.executable, str(program)], env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "10.0\n", done


RELAY = """
    import os, subprocess, sys, time
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from multiprocessing.connection import Listener, Client

    def main():
        place = sys.argv[1]
        if sys.argv[2:] == ["other"]:
            with Client(place) as connection:
                tensor = connection.recv()
                tensor += 1
                connection.send(tensor)
                connection.send(st.full(5, 2))
                connection.recv()  # the other one has looked
            return
        here = st.zeros(5)
        with Listener(place) as listener:
            shift = ["unshare", "--time", "--fork", "--monotonic", OFFSET, "--boottime", OFFSET]
            other = subprocess.Popen([*shift, sys.executable, __file__, place, "other"])
            with listener.accept() as connection:
                connection.send(here)
                back = connection.recv()
                while not connection.poll(1):
                    pass
                if int(OFFSET) > 0:
                    st.gc(older_than=60)  # its message is from the future: not old, that is
                made = connection.recv()
                assert back.storage() is here.storage()
                assert (here.tolist(), made.tolist()) == ([1] * 5, [2] * 5)
                time.sleep(0.3)  # time for a manager that believes the other one dead
                assert made.tolist() == [2] * 5
                connection.send(None)
            assert other.wait(30) == 0
        print("fine")

    if __name__ == "__main__":
        main()
"""


def can_shift_clocks() -> bool:
    command = ["unshare", "--time", "--fork", "--monotonic", "1000", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize("offset", ["100000", "-1000"])
def test_process_in_other_time_namespace_works(strategy, offset, tmp_path) -> None:
    """In a container with a time namespace, ages and start times differ by an offset."""
    if not can_shift_clocks():
        pytest.skip("needs the right to make a time namespace")
    if float(Path("/proc/uptime").read_text().split()[0]) < 1100:
        offset = offset.replace("-1000", "-10")
    program = write_program(tmp_path, RELAY.replace("OFFSET", repr(offset)))
    command = [sys.executable, str(program), str(tmp_path / "line")]
    done = run_command(command, timeout=60, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "fine\n", done


def test_message_can_be_read_again_after_failed_mapping(strategy) -> None:
    """Regression: the message was consumed before its bytes were mapped; its sender had ended."""
    program = f"""
        import os, pickle, resource
        from multiprocessing.reduction import ForkingPickler
        import pytest
        import shmtensor as st
        import shmtensor.multiprocessing as mp
        from shmtensor import _core

        mp.set_sharing_strategy("{strategy}")
        reader, writer = os.pipe()
        if os.fork() == 0:
            with _core.SendScope() as message:
                tensors = st.full(3, 1).as_readonly(), st.full(3, 2)
                with open(writer, "wb") as pipe:
                    pipe.write(pickle.dumps([bytes(ForkingPickler.dumps(tensor)) for tensor in tensors]))
                message.delivered()
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            first, second = pickle.load(pipe)
        os.wait()
        readonly = pickle.loads(first)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + {8 * MIB}, resource.RLIM_INFINITY))
        with pytest.raises(OSError, match="RLIMIT_AS"):
            pickle.loads(second)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert pickle.loads(second).tolist() == [2, 2, 2]
        assert readonly.tolist() == [1, 1, 1]
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
