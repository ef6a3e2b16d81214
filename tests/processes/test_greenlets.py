"""Greenlets of one thread that switch inside a pickle, as under gevent: each message has its own tickets."""

from __future__ import annotations

from tests.helpers.children import output, run_python

PRELUDE = """
    import contextvars, gc, pickle, threading
    import greenlet
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from multiprocessing.reduction import ForkingPickler
    from shmtensor import _core

    class Switch:
        def __init__(self, fails=False):
            self.fails = fails
        def __reduce__(self):
            switch()
            if self.fails:
                raise KeyError("refused")
            return switch, ()

    def switch():
        hub = greenlet.getcurrent().parent
        if hub is not None:
            hub.switch()

    def in_flight():
        return st.stats()["in_flight"]
"""


def run(program: str) -> None:
    output(run_python(PRELUDE + program))


def test_message_that_fails_cancels_no_ticket_of_another_one() -> None:
    """Regression: a ticket belonged to the scope that any greenlet of the thread opened last."""
    run("""
    reader, writer = mp.Pipe(False)
    def fail():
        try:
            writer.send([Switch(), Switch(), Switch(fails=True)])
        except KeyError:
            pass

    first = greenlet.greenlet(lambda: writer.send([Switch(), st.full(3, 7)]))
    second = greenlet.greenlet(fail)
    first.switch()  # its scope is open
    second.switch()  # and another one, which was opened later
    first.switch()
    assert first.dead and not second.dead
    while not second.dead:
        second.switch()
    assert reader.recv()[1].tolist() == [7, 7, 7]
    assert in_flight() == 0
    """)


def test_deleted_greenlet_cancels_its_own_message() -> None:
    run("""
    messages, kept = [], st.ones(3)
    def send():
        with _core.SendScope() as scope:
            messages.append(bytes(ForkingPickler.dumps([kept, Switch(), kept])))
            scope.delivered()

    first, second = greenlet.greenlet(send), greenlet.greenlet(send)
    first.switch()
    second.switch()
    before = in_flight()
    del first
    assert in_flight() < before
    second.switch()
    (message,) = messages
    assert [each.tolist() for each in pickle.loads(message)[::2]] == 2 * [[1, 1, 1]]
    assert in_flight() == 0
    """)


def test_message_is_consumed_while_another_greenlet_reads_a_name() -> None:
    """Regression: a message that was received in between was taken for a copy that others will read."""
    run("""
    st.publish("name", [Switch(), st.ones(1)])
    message = bytes(ForkingPickler.dumps(st.ones(3)))
    before = in_flight()
    attaching = greenlet.greenlet(lambda: st.attach("name"))
    attaching.switch()
    received = pickle.loads(message)
    assert in_flight() == before - 1
    while not attaching.dead:
        attaching.switch()
    """)


def test_thread_with_a_copied_context_uses_no_scope_of_it() -> None:
    """`asyncio.to_thread` runs a function in a copy of the context."""
    run("""
    tensor = st.ones(3)
    with _core.SendScope() as scope:
        context = contextvars.copy_context()
        messages = []
        thread = threading.Thread(
            target=context.run, args=(lambda: messages.append(bytes(ForkingPickler.dumps(tensor))),)
        )
        thread.start()
        thread.join()
        assert scope.tickets() == b""
        context.run(ForkingPickler.dumps, tensor)
        assert len(scope.tickets()) == 32
        scope.discard()
    del tensor
    assert pickle.loads(messages[0]).tolist() == [1, 1, 1]
    """)
