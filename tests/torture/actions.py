"""What an actor may do next. Each takes its hands and dice; weights are chances in relation."""

from __future__ import annotations

import contextlib
import os
import random
from typing import TYPE_CHECKING

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.torture import stage as stages
from tests.torture.patterns import new_tag
from tests.torture.transports import Letter, as_view, load, new_letter, read_file, write_file
from tests.torture.workshop import exchange

if TYPE_CHECKING:
    from tests.torture.actor import Actor

MOST = 30  # letters held
STRATEGIES = ("file_descriptor", "file_system")
KINDS = ("Queue", "SimpleQueue", "Pipe", "Pool", "Process", "JoinableQueue")


class Hands:
    """What one thread of an actor holds."""

    LEAVE = object()

    def __init__(self, actor: Actor, is_helper: bool = False) -> None:
        self.actor, self.stage, self.is_helper = actor, actor.stage, is_helper
        self.held: list[Letter] = []
        self.haunted = False
        self.made = 0

    def number(self) -> str:
        """A name for what is made next, never used twice."""
        self.made += 1
        return f"{os.getpid()}-{int(self.is_helper)}-{self.made}"

    def keep(self, letter: Letter) -> None:
        if why := letter.why_broken():
            self.stage.accuse(f"{why}; {letter.base}")
            os._exit(stages.WRONG)
        self.held.append(letter)
        if len(self.held) > MOST:
            del self.held[: MOST // 2]

    def receive(self, content: bytes | None) -> Letter | None:
        """Load a message for the first time, which must succeed."""
        if content is None:
            return None
        try:
            letter = load(content)
        except st.StaleHandleError:
            if not self.stage.harsh:
                raise
            # Owner and manager were killed together: nobody had the memfd any more.
            self.actor.row[stages.LOST] += 1
            return None
        self.actor.row[stages.RECEIVED] += 1
        return letter


def allocate(hands: Hands, rng: random.Random) -> None:
    words = rng.choice((2, 3, 17, 100, 100, 5000, rng.randrange(2, 20_000)))
    if rng.random() < 0.01:
        words = rng.randrange(1 << 17, 1 << 20)
    if rng.random() < 0.2:
        mp.set_sharing_strategy(rng.choice(STRATEGIES))
    hands.held.append(new_letter(new_tag(rng.getrandbits(48)), words))
    if len(hands.held) > MOST:
        del hands.held[: MOST // 2]


def let_go(hands: Hands, rng: random.Random) -> None:
    if hands.held:
        hands.held.pop(rng.randrange(len(hands.held)))


def check_one(hands: Hands, rng: random.Random) -> None:
    if hands.held:
        hands.keep(hands.held.pop(rng.randrange(len(hands.held))))


def make_view(hands: Hands, rng: random.Random) -> None:
    if hands.held:
        hands.keep(as_view(rng.choice(hands.held), rng))


def post(hands: Hands, rng: random.Random) -> None:
    if hands.held:
        rng.choice(hands.stage.boxes).send(rng.choice(hands.held))


def post_private(hands: Hands, rng: random.Random) -> None:
    """A tensor that is copied into shared memory when it is sent, and of which nothing is kept."""
    rng.choice(hands.stage.boxes).send(new_letter(new_tag(rng.getrandbits(48)), rng.randrange(2, 3000), True))


def collect_mail(hands: Hands, rng: random.Random) -> None:
    letter = hands.receive(rng.choice(hands.stage.boxes).receive_bytes())
    if letter is not None:
        hands.keep(letter)


def forward(hands: Hands, rng: random.Random) -> None:
    letter = hands.receive(rng.choice(hands.stage.boxes).receive_bytes())
    if letter is not None and not rng.choice(hands.stage.boxes).send(letter):
        hands.keep(letter)


def load_twice(hands: Hands, rng: random.Random) -> None:
    """Works while the block lives; raises after."""
    content = rng.choice(hands.stage.boxes).receive_bytes()
    letter = hands.receive(content)
    if letter is None:
        return
    again = load(content)
    if again.tensor.storage() is not letter.tensor.storage():
        raise AssertionError("the same block is two storages")
    del letter
    hands.keep(again)
    if rng.random() < 0.5:
        hands.held.pop()
        del again
        with contextlib.suppress(st.StaleHandleError):
            hands.keep(load(content))


def write_mail(hands: Hands, rng: random.Random) -> None:
    if hands.held and len(os.listdir(hands.stage.mail)) < 40:
        write_file(rng.choice(hands.held), hands.stage.mail, hands.number())


def read_mail(hands: Hands, rng: random.Random) -> None:
    letter = hands.receive(read_file(hands.stage.mail, rng))
    if letter is not None:
        hands.keep(letter)


def go_to_workshop(hands: Hands, rng: random.Random) -> None:
    """Through the transports of the standard library, with a child that lives as long as they."""
    if hands.is_helper or hands.actor.is_forked or not hands.held:
        return
    method = rng.choices(("fork", "spawn"), (40, 1))[0]
    letters = [rng.choice(hands.held) for _ in range(rng.randrange(1, 6))]
    for letter in exchange(rng.choice(KINDS), method, letters, rng):
        hands.keep(letter)


def fork(hands: Hands, rng: random.Random) -> None:
    if not hands.is_helper and not hands.actor.is_forked:
        hands.actor.fork(hands)


def leave(hands: Hands, rng: random.Random) -> object:
    return None if hands.is_helper else hands.LEAVE


def tidy(hands: Hands, rng: random.Random) -> None:
    """Unmaps what is gone and gives pages back; spends no message."""
    st.gc()


def take_all(hands: Hands) -> None:
    """Read every message there is and keep none."""
    dice = random.Random(0)
    while True:
        contents = [box.receive_bytes() for box in hands.stage.boxes]
        contents.append(read_file(hands.stage.mail, dice))
        if not any(contents):
            return
        for content in contents:
            if (letter := hands.receive(content)) is not None:
                hands.keep(letter)
                hands.held.clear()


ACTIONS = [
    (allocate, 20.0), (let_go, 14), (check_one, 5), (make_view, 3), (post, 22), (post_private, 4),
    (collect_mail, 25), (forward, 8), (load_twice, 3), (write_mail, 2), (read_mail, 2.2),
    (go_to_workshop, 0.15), (fork, 0.8), (leave, 0.2), (tidy, 0.2),
]  # fmt: skip
