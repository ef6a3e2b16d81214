"""A process that is short of address space cannot search the tickets of others: the manager frees for it."""

from __future__ import annotations

from tests.helpers.children import run_python


def test_block_whose_tickets_cannot_be_searched_is_freed_by_the_manager(strategy) -> None:
    """Regression: the block stayed allocated until a process of the session died."""
    program = """
        import pickle, resource
        from multiprocessing.reduction import ForkingPickler
        import shmtensor as st
        import shmtensor.multiprocessing as mp

        def send_to_itself(pipe):
            tensor = pipe.recv()
            pickle.loads(bytes(ForkingPickler.dumps(tensor)))  # its table may have tickets from now on
            del tensor
            pipe.send_bytes(b"released")
            pipe.recv_bytes()

        context = mp.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=send_to_itself, args=(theirs,))
        process.start()
        tensor = st.ones(1000)
        ours.send(tensor)
        ours.recv_bytes()
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), before[1]))
        del tensor
        resource.setrlimit(resource.RLIMIT_AS, before)
        print(st.stats()["blocks"])
        ours.send_bytes(b"")
        process.join()
        """
    done = run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "0\n", done
    assert done.stderr == "", done
