"""Scopes of messages: opened and closed in any order, each ticket belongs to the right one."""

from __future__ import annotations

from tests.helpers.children import output, run_python

PRELUDE = """
    import gc, pickle, threading
    import shmtensor as st
    from multiprocessing.reduction import ForkingPickler
    from shmtensor import _core

    TICKET = 32
    tensor = st.ones(10)
    send = lambda: bytes(ForkingPickler.dumps(tensor))
    count = lambda scope: len(scope.tickets()) // TICKET
    def open_scope(kind=_core.SendScope):
        scope = kind()
        scope.__enter__()
        return scope
    close = lambda scope: scope.__exit__(None, None, None)
"""


def run(program: str) -> None:
    output(run_python(PRELUDE + program))


def test_outer_scope_closes_before_the_inner_one() -> None:
    """Two greenlets of one thread that interleave their sends do so."""
    run("""
    first = open_scope()
    send()
    second = open_scope()
    assert (count(first), count(second)) == (1, 0)
    close(first)
    first.delivered()
    del first
    gc.collect()
    send()
    assert count(second) == 1, "the ticket belongs to the open scope"
    close(second)
    send()
    assert count(second) == 1, "no scope is open"
    third = open_scope()
    send()
    assert (count(second), count(third)) == (1, 1)
    close(third)
    second.discard()
    third.discard()
    """)


def test_closed_middle_scope_keeps_the_others_open() -> None:
    run("""
    first, second, third = (open_scope() for _ in range(3))
    close(second)
    send()
    close(third)
    send(); send()
    assert [count(scope) for scope in (first, second, third)] == [2, 0, 1]
    close(first)
    close(first)
    send()
    assert [count(scope) for scope in (first, second, third)] == [2, 0, 1]
    """)


def test_interleaved_scopes_do_not_accumulate() -> None:
    run("""
    last = open_scope()
    for _ in range(10_000):
        scope = open_scope()
        close(last)
        last = scope
    send()
    assert count(last) == 1
    """)


def test_open_scope_is_destroyed_by_another_thread() -> None:
    run("""
    scopes = [open_scope()]
    def destroy():
        scopes.clear()
        gc.collect()
    thread = threading.Thread(target=destroy)
    thread.start()
    thread.join()
    assert not scopes
    send()
    scope = open_scope()
    send()
    assert count(scope) == 1
    """)


def test_scope_outlives_its_thread() -> None:
    run("""
    scopes = []
    thread = threading.Thread(target=lambda: scopes.append(open_scope()))
    thread.start()
    thread.join()
    send()
    assert count(scopes[0]) == 0
    close(scopes[0])
    del scopes[:]
    send()
    """)


def test_borrowed_scope_keeps_old_tickets_and_forwards_new_ones() -> None:
    run("""
    message = send()
    del tensor
    outer = open_scope()
    borrowed = open_scope(_core.ReadScope)
    for _ in range(3):
        again = pickle.loads(message)
        assert again.tolist() == [1] * 10
        tensor = again
        send()
        del again, tensor
    assert count(outer) == 3
    outer.discard()
    close(outer)
    tensor = pickle.loads(message)
    send()
    close(borrowed)
    in_flight = st.stats()["in_flight"]
    again = pickle.loads(message)
    assert again.storage() is tensor.storage()
    assert st.stats()["in_flight"] == in_flight - 1, "its ticket is consumed"
    """)


def test_borrowed_message_never_has_a_ticket() -> None:
    """Regression: it had one until it was complete, which stayed if its sender was killed meanwhile."""
    run("""
    with _core.SendScope(borrowed=True) as borrowed:
        message = send()
        assert count(borrowed) == st.stats()["in_flight"] == 0
    again = pickle.loads(message)
    assert again.storage() is tensor.storage()
    del again, tensor
    try:
        pickle.loads(message)
    except st.StaleHandleError:
        pass
    else:
        raise AssertionError("the block was freed")
    """)


def test_ticket_that_cannot_be_noted_is_not_issued() -> None:
    """Regression: a ticket was issued before there was heap memory to note it for its message."""
    run("""
    import resource
    scope = open_scope()
    send()  # maps the table of tickets
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), before[1]))
    try:
        for _ in range(900_000):
            _core.reduce_tensor(tensor)
    except MemoryError:
        resource.setrlimit(resource.RLIMIT_AS, before)
    else:
        raise AssertionError("the list of tickets fits")
    close(scope)
    scope.discard()
    assert st.stats()["in_flight"] == 0, st.stats()
    """)
