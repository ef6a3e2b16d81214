"""Children report the integrations that they inherit. Argument: a start method."""

import multiprocessing
import sys


def report(queue):
    # This function does not import shmtensor.
    registry = sys.modules.get("shmtensor.integrations._registry")
    queue.put(registry and registry._requested)


def report_from_a_grandchild(context, queue):
    context.Process(target=report, args=(queue,)).start()


def answer(context, target, *args):
    queue = context.Queue()
    process = context.Process(target=target, args=(*args, queue))
    process.start()
    found = queue.get(timeout=50)
    process.join(50)
    return found


if __name__ == "__main__":
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    context = (mp if sys.argv[1] == "server" else multiprocessing).get_context(sys.argv[1])
    assert not answer(context, report)
    st.install("torch", alias=True)
    expected = {"torch": {"alias": True}}
    assert answer(context, report) == expected
    if sys.argv[1] != "server":
        grandchild = answer(context, report_from_a_grandchild, context)
        assert grandchild == expected, grandchild
    st.uninstall()
    found = answer(context, report)
    assert not found, found
