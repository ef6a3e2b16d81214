"""Actions of an actor. Each takes the actor's state and random generator; weights are relative."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.observer.patterns import new_tag
from tests.torture import broadcasts
from tests.torture import run_state as states
from tests.torture.blows import BLOWS
from tests.torture.broadcasts import BROADCASTS, SharedBroadcast, drain_broadcasts
from tests.torture.caches import CACHES, SharedItems, release_caches
from tests.torture.greenlets import GREENLETS
from tests.torture.latest import LATEST, SharedLatest
from tests.torture.limits import LIMITED
from tests.torture.locks import LOCKS, SharedLocks, drain_locks
from tests.torture.mp_workload import exchange
from tests.torture.queues import QUEUES, SharedQueue, drain_queues
from tests.torture.shared import meet
from tests.torture.transports import Letter, as_view, load, new_letter, read_file, write_file

if TYPE_CHECKING:
    from tests.torture.actor import Actor

MOST = 30  # maximum number of letters held
STRATEGIES = ("file_descriptor", "file_system")
WITHOUT_QUEUE = ("Pipe", "Process")
KINDS = (*WITHOUT_QUEUE, "Queue", "SimpleQueue", "JoinableQueue", "st.Queue", "Pool")


class ActorState:
    """The tensors, queues, broadcasts, caches and locks that one thread of an actor holds."""

    LEAVE = object()

    def __init__(self, actor: Actor, is_helper: bool = False) -> None:
        self.actor, self.state, self.is_helper = actor, actor.state, is_helper
        self.held: list[Letter] = []
        self.queues: list[SharedQueue] = []
        self.broadcasts: list[SharedBroadcast] = []
        self.readers: list[broadcasts.Reader] = []
        self.locks: list[SharedLocks] = []
        self.latest: list[SharedLatest] = []
        self.caches: list[SharedItems] = []
        self.items: list[np.ndarray[Any, Any]] = []  # of caches
        self.writers: dict[tuple[int, int], tuple[int, int]] = {}  # of a broadcast and a process
        self.has_orphan_thread = False
        self.made = 0

    def number(self) -> str:
        """Return a unique name for the next message file."""
        self.made += 1
        return f"{os.getpid()}-{int(self.is_helper)}-{self.made}"

    def keep(self, letter: Letter) -> None:
        if why := letter.mismatch():
            self.state.report_violation(f"{why}; {letter.base}")
            os._exit(states.WRONG)
        self.held.append(letter)
        if len(self.held) > MOST:
            del self.held[: MOST // 2]

    def receive(self, content: bytes | None) -> Letter | None:
        """Load a message for the first time; this must succeed. Return a letter, and keep anything else."""
        message = None if content is None else self.first(lambda: load(content))
        if (known := self.known_of(type(message))) is not None:
            meet(known, message)
            return None
        return message

    def known_of(self, kind: type) -> list[Any] | None:
        known = {
            SharedQueue: self.queues,
            SharedBroadcast: self.broadcasts,
            SharedLatest: self.latest,
            SharedItems: self.caches,
            SharedLocks: self.locks,
        }
        return known.get(kind)

    def first(self, read: Callable[[], Any]) -> Any:
        """Call a function that loads a message for the first time; return None if the tensors are lost."""
        with self.allowing_loss():
            message = read()
            self.actor.row[states.RECEIVED] += 1
            return message
        return None

    @contextlib.contextmanager
    def allowing_loss(self) -> Iterator[None]:
        """End the body if an arena is lost, in a round in which that may happen.

        Its owner and the manager were killed together: no process had the memfd open any more. Or the manager
        cannot see the one that has, which is in another PID namespace and stopped.
        """
        try:
            yield
        except (st.StaleHandleError, st.SessionError) as error:
            is_lost = isinstance(error, st.StaleHandleError) or "cannot reach arena" in str(error)
            if not (is_lost and self.state.allow_data_loss):
                raise
            self.actor.row[states.LOST] += 1


def allocate(actor_state: ActorState, rng: random.Random) -> None:
    words = rng.choice((2, 3, 17, 100, 100, 5000, rng.randrange(2, 20_000)))
    if rng.random() < 0.01:
        words = rng.randrange(1 << 17, 1 << 20)
    if rng.random() < 0.2:
        mp.set_sharing_strategy(rng.choice(STRATEGIES))
    actor_state.held.append(new_letter(new_tag(rng.getrandbits(48)), words))
    if len(actor_state.held) > MOST:
        del actor_state.held[: MOST // 2]


def release_one(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.held:
        actor_state.held.pop(rng.randrange(len(actor_state.held)))


def check_one(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.held:
        actor_state.keep(actor_state.held.pop(rng.randrange(len(actor_state.held))))


def make_view(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.held:
        actor_state.keep(as_view(rng.choice(actor_state.held), rng))


def post(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.held:
        rng.choice(actor_state.state.boxes).send(rng.choice(actor_state.held))


def post_private(actor_state: ActorState, rng: random.Random) -> None:
    """Send a private tensor, which is copied into shared memory, and keep no reference."""
    rng.choice(actor_state.state.boxes).send(
        new_letter(new_tag(rng.getrandbits(48)), rng.randrange(2, 3000), True)
    )


def collect_mail(actor_state: ActorState, rng: random.Random) -> None:
    letter = actor_state.receive(rng.choice(actor_state.state.boxes).receive_bytes())
    if letter is not None:
        actor_state.keep(letter)


def forward(actor_state: ActorState, rng: random.Random) -> None:
    letter = actor_state.receive(rng.choice(actor_state.state.boxes).receive_bytes())
    if letter is not None and not rng.choice(actor_state.state.boxes).send(letter):
        actor_state.keep(letter)


def load_twice(actor_state: ActorState, rng: random.Random) -> None:
    """Load a message twice: the second load succeeds while the block lives and raises afterwards."""
    content = rng.choice(actor_state.state.boxes).receive_bytes()
    letter = actor_state.receive(content)
    if letter is None:
        return
    again = load(content)
    if again.tensor.storage() is not letter.tensor.storage():
        raise AssertionError("one block has two storages")
    del letter
    actor_state.keep(again)
    if rng.random() < 0.5:
        actor_state.held.pop()
        del again
        with contextlib.suppress(st.StaleHandleError):
            actor_state.keep(load(content))


def write_mail(actor_state: ActorState, rng: random.Random) -> None:
    if actor_state.held and len(os.listdir(actor_state.state.mail)) < 40:
        write_file(rng.choice(actor_state.held), actor_state.state.mail, actor_state.number())


def read_mail(actor_state: ActorState, rng: random.Random) -> None:
    letter = actor_state.receive(read_file(actor_state.state.mail, rng))
    if letter is not None:
        actor_state.keep(letter)


def run_mp_workload(actor_state: ActorState, rng: random.Random) -> None:
    """Exchange letters through a transport of the standard library, with a child process."""
    if actor_state.is_helper or actor_state.actor.is_forked or not actor_state.held:
        return
    method = rng.choices(("fork", "spawn"), (40, 1))[0]
    letters = [rng.choice(actor_state.held) for _ in range(rng.randrange(1, 6))]
    kind = rng.choice(KINDS if actor_state.state.has_queues else WITHOUT_QUEUE)
    for letter in exchange(kind, method, letters, rng):
        actor_state.keep(letter)


def fork(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.is_helper and not actor_state.actor.is_forked:
        actor_state.actor.fork(actor_state)


def leave(actor_state: ActorState, rng: random.Random) -> object:
    return None if actor_state.is_helper else actor_state.LEAVE


def collect_garbage(actor_state: ActorState, rng: random.Random) -> None:
    """Unmap removed arenas and release idle pages; consume no message."""
    st.gc()


def release_shared(actor_state: ActorState) -> None:
    """Read the broadcasts to their end; release them, the locks, the newest values and the caches."""
    drain_broadcasts(actor_state)
    drain_locks(actor_state)
    actor_state.latest.clear()
    release_caches(actor_state)


def receive_all(actor_state: ActorState) -> None:
    """Receive all messages, and release their tensors, all queues, broadcasts, caches and locks."""
    rng = random.Random(0)
    while True:
        release_shared(actor_state)
        contents = [box.receive_bytes() for box in actor_state.state.boxes]
        contents.append(read_file(actor_state.state.mail, rng))
        if not any(contents) and not drain_queues(actor_state):
            return
        for content in contents:
            if (letter := actor_state.receive(content)) is not None:
                actor_state.keep(letter)
                actor_state.held.clear()


ACTIONS = [
    (allocate, 20.0), (release_one, 14), (check_one, 5), (make_view, 3), (post, 22), (post_private, 4),
    (collect_mail, 25), (forward, 8), (load_twice, 3), (write_mail, 2), (read_mail, 2.2),
    (run_mp_workload, 0.15), (fork, 0.8), (leave, 0.2), (collect_garbage, 0.2), *BLOWS, *GREENLETS, *LIMITED,
    *QUEUES, *BROADCASTS, *LATEST, *CACHES, *LOCKS,
]  # fmt: skip
