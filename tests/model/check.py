"""Runs Spin on the models of this folder: `make model`.

Each configuration is searched exhaustively and must be correct; each mutation breaks one rule of the protocol
and must fail, which shows that the model can fail.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MEMORY_MB = 7000
SECONDS = 900.0


@dataclass(frozen=True)
class Case:
    name: str
    defines: str
    model: str = "block.pml"
    wrong: bool = False  # a mutation: an error must be found


QUEUE = "queue.pml"
RINGS = "rings.pml"
DRAIN = "drain.pml"
WATCH = "watch.pml"
BROADCAST = "broadcast.pml"
REDELIVER = "redeliver.pml"
PAIR = "PRODUCERS=1 CONSUMERS=1 "

RIGHT = [
    Case("two blocks, two deaths", "B=2 T=1 OPS=2 DEATHS=2"),
    Case("two tickets, two deaths", "B=1 T=2 OPS=2 ALLOCS=1 DEATHS=2"),
    Case("messages loaded twice, reuse", "B=1 T=1 OPS=2 ALLOCS=2 DEATHS=1 READS=2 START_HELD=1"),
    Case("fork", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=2 FORK=1 START_HELD=3"),
    Case("fork, the child in a plane before", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=2 FORK=1 START_HELD=3 PLANES=3"),
    Case("a receiver forks", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=1 FORK=1 START_HELD=1 PLANES=3"),
    Case("fork with two blocks", "B=2 T=1 OPS=1 ALLOCS=2 DEATHS=2 FORK=1 START_HELD=3"),
    Case("a send fails during gc", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=1 UNSEND=1 COLLECTS=1"),
    Case("the manager dies too", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=1 MANAGER_DEATHS=1 START_HELD=3"),
    Case("a plane of its own", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=2 PLANES=2"),
    Case("fork, the child in a new plane", "B=1 T=1 OPS=1 ALLOCS=1 DEATHS=2 FORK=1 START_HELD=3 PLANES=2"),
    Case("queue: a pair, and the manager dies", PAIR + "MESSAGES=3 DEATHS=2 MANAGER_DEATHS=1", QUEUE),
    Case("queue: two producers", "PRODUCERS=2 CONSUMERS=1 MESSAGES=3 DEATHS=1", QUEUE),
    Case("queue: two consumers", "PRODUCERS=1 CONSUMERS=2 MESSAGES=3 DEATHS=1", QUEUE),
    Case("queue: two of each", "PRODUCERS=2 CONSUMERS=2 MESSAGES=2 DEATHS=1", QUEUE),
    Case("queue: room for two", "PRODUCERS=2 CONSUMERS=1 MESSAGES=4 ROOM=2 DEATHS=1", QUEUE),
    Case("rings: a pair, and the manager dies", "DEATHS=2 MANAGER_DEATHS=1", RINGS),
    Case("rings: two producers", "PRODUCERS=2 MESSAGES=4", RINGS),
    Case("rings: two consumers", "CONSUMERS=2 MESSAGES=4", RINGS),
    Case("rings: of three entries", "ENTRIES=3 MESSAGES=7", RINGS),
    Case("rings: two records", "RECORDS=2 MESSAGES=6", RINGS),
    Case("drain: a death and the manager's", "DEATHS=1 MANAGER_DEATHS=1", DRAIN),
    Case("drain: two deaths", "DEATHS=2 MANAGER_DEATHS=0", DRAIN),
    Case("watch: two producers, a death", "PRODUCERS=2 DEATHS=1", WATCH),
    Case("watch: two producers, and the manager dies", "PRODUCERS=2 MESSAGES=1 MANAGER_DEATHS=1", WATCH),
    Case("watch: a death and the manager's", "DEATHS=1 MANAGER_DEATHS=1 SHUTDOWN", WATCH),
    Case("watch: the manager dies twice", "MESSAGES=3 MANAGER_DEATHS=2", WATCH),
    Case("watch: another consumer", "PRODUCERS=2 OTHERS=2", WATCH),
    Case("watch: another consumer, and the manager dies", "OTHERS=2 MANAGER_DEATHS=1 SHUTDOWN", WATCH),
    Case("redeliver: two consumers, two deaths", "DEATHS=2", REDELIVER),
    Case("redeliver: a record for both, and the manager dies", "RECORDS=1 MANAGER_DEATHS=1", REDELIVER),
    Case("redeliver: messages without blocks", "MANAGER_DEATHS=1 NO_TICKETS", REDELIVER),
    Case("redeliver: a message that a living consumer returns", "MESSAGES=1 RETURNS=1", REDELIVER),
    Case("redeliver: join while messages are completed", "DEATHS=0 JOIN", REDELIVER),
    Case("redeliver: join while a consumer is killed", "MESSAGES=1 JOIN", REDELIVER),
    Case("redeliver: join while a consumer puts a message", "DEATHS=0 FOLLOWS JOIN", REDELIVER),
    Case("broadcast: a pair, and the manager dies", "READERS=1 DEATHS=2 MANAGER_DEATHS=1", BROADCAST),
    Case("broadcast: room for two", "READERS=1 MESSAGES=4 LIMIT=2", BROADCAST),
    Case("broadcast: the oldest is dropped, a death", "READERS=1 DROP", BROADCAST),
    Case("broadcast: the oldest is dropped, two readers", "DEATHS=0 LEAVES=0 DROP COARSE", BROADCAST),
    Case("broadcast: two readers", "MESSAGES=2 DEATHS=0 COARSE", BROADCAST),
    Case("broadcast: two readers, a death", "MESSAGES=1 COARSE", BROADCAST),
    Case("broadcast: two writers, a death", "WRITERS=2 READERS=1 MESSAGES=2 LEAVES=0 COARSE", BROADCAST),
]

ONE = "READERS=1 DEATHS=0 "
TWO = "MESSAGES=2 DEATHS=0 LEAVES=0 COARSE "
SMALL = "B=1 T=1 ALLOCS=1 DEATHS=0 START_HELD=3 "
WRONG = [
    Case("no epoch", "B=1 T=2 ALLOCS=1 DEATHS=0 START_HELD=3 OPS=2 NO_EPOCH"),
    Case("holders are not read again after the tickets", SMALL + "OPS=2 HOLDERS_ONCE"),
    Case(
        "a fork moves no epoch", "B=1 T=1 OPS=2 ALLOCS=1 DEATHS=0 FORK=1 START_HELD=1 PLANES=3 NO_FORK_EPOCH"
    ),
    Case("the ticket is claimed before the bit is set", SMALL + "OPS=2 CLAIM_FIRST"),
    Case("a hold without a ticket moves no epoch", SMALL + "OPS=2 READS=2 HOLD_WITHOUT_EPOCH"),
    Case("a sweep tries only what the dead one held", "B=1 T=1 OPS=1 DEATHS=1 START_HELD=3 SWEEP_OWN_ONLY"),
    Case("a block is live before its owner's bit", "B=1 T=1 OPS=3 ALLOCS=2 DEATHS=0 START_HELD=3 LIVE_FIRST"),
    Case(
        "a freed block keeps its generation",
        "B=1 T=2 OPS=3 DEATHS=0 READS=2 START_HELD=3 SAME_GENERATION",
    ),
    Case("planes are not read again after the tickets", SMALL + "OPS=2 PLANES=2 PLANES_ONCE"),
    Case("queue: a ticket before its record", PAIR + "MESSAGES=2 TICKET_BEFORE_RECORD", QUEUE),
    Case("queue: a record is valid while it is written", "CONSUMERS=1 MESSAGES=4 ROOM=2 KEEP_VALID", QUEUE),
    Case("queue: a message is counted as taken before the claim", PAIR + "COUNT_BEFORE_CLAIM", QUEUE),
    Case("queue: no ticket is cancelled for a dead producer", PAIR + "MESSAGES=2 NO_CANCEL", QUEUE),
    Case("queue: no message is skipped for a dead consumer", "PRODUCERS=1 MESSAGES=2 NO_SKIP", QUEUE),
    Case("queue: a waiter checks, then announces itself", PAIR + "MESSAGES=2 LOOK_BEFORE_ANNOUNCING", QUEUE),
    Case("queue: the word is cleared without a wake", "PRODUCERS=1 MESSAGES=2 CLEAR_WITHOUT_WAKE", QUEUE),
    Case(
        "queue: the word does not count that it was cleared",
        "CONSUMERS=1 MESSAGES=4 ROOM=2 CLEAR_WITHOUT_COUNT",
        QUEUE,
    ),
    Case("queue: a sweep wakes no waiter", "PRODUCERS=1 MESSAGES=1 NO_WAKE_IN_SWEEP", QUEUE),
    Case(
        "queue: the slot is cleared before the repair",
        PAIR + "MESSAGES=1 MANAGER_DEATHS=1 SWEPT_BEFORE_REPAIR",
        QUEUE,
    ),
    Case("queue: the lock is free before the repair", "CONSUMERS=1 MESSAGES=2 UNLOCK_BEFORE_REPAIR", QUEUE),
    Case("rings: the rings are read before the count", "CONSUMERS=2 COUNT_AFTER_RINGS", RINGS),
    Case("rings: a ring is in use before its start is written", "RING_BEFORE_START", RINGS),
    Case("rings: a return to the first ring with messages", "ENTRIES=3 RETURN_WITH_MESSAGES", RINGS),
    Case("rings: the oldest ring has ended before its ticket", "NUMBER_BEFORE_CANCEL", RINGS),
    Case("rings: a dead producer's ring is kept", "KEEP_NEXT_RING", RINGS),
    Case("rings: the ring of the head has ended", "CONSUMERS=2 RING_OF_HEAD_ONLY", RINGS),
    Case("drain: a block with tickets is freed", "FREE_WITHOUT_DRAINING", DRAIN),
    Case("drain: the owner uses a draining block", "REUSE_DRAINING", DRAIN),
    Case("drain: a block is free before its tickets are cancelled", "FREE_BEFORE_CANCEL", DRAIN),
    Case("drain: a sweep skips a draining block with a holder bit", "SKIP_HELD", DRAIN),
    Case("drain: a process holds a draining block", "HOLD_DRAINING", DRAIN),
    Case("watch: the flag is disarmed after the message is counted", "OTHERS=1 DISARM_AFTERWARDS", WATCH),
    Case("watch: the flag is armed without the lock", "ARM_WITHOUT_LOCK", WATCH),
    Case("watch: the event is looked for once only", "SHUTDOWN LOOK_ONCE", WATCH),
    Case("watch: another consumer does not settle", "OTHERS=1 OTHERS_DO_NOT_SETTLE", WATCH),
    Case("watch: the manager's death wakes no watcher", "MANAGER_DEATHS=1 SHUTDOWN NO_HANG_UP", WATCH),
    Case("watch: a sweep wakes no watcher", "PRODUCERS=2 DEATHS=1 NO_WAKE_IN_SWEEP", WATCH),
    Case("redeliver: a message is counted before it has an owner", "COUNT_BEFORE_OWNER", REDELIVER),
    Case("redeliver: the entry names the ticket of a counted message", "NAME_AFTER_COUNT", REDELIVER),
    Case("redeliver: owned messages are looked for after returned ones", "OWNED_AFTER_RETURNED", REDELIVER),
    Case("redeliver: a consumer ends while another owns a message", "IGNORE_OWNED", REDELIVER),
    Case("redeliver: a record is free before its ticket is cancelled", "FREE_BEFORE_CANCEL", REDELIVER),
    Case("redeliver: a completed message is returned", "RETURN_COMPLETED", REDELIVER),
    Case("redeliver: a completion wakes no waiter", "DEATHS=0 NO_WAKE_WHEN_COMPLETE", REDELIVER),
    Case("redeliver: a message that was kept is not counted", "NO_HEAD_REPAIR", REDELIVER),
    Case("redeliver: a sweep wakes no waiter", "NO_WAKE_IN_SWEEP", REDELIVER),
    Case("redeliver: join reads the count of messages once", "DEATHS=0 FOLLOWS JOIN COUNT_ONCE", REDELIVER),
    Case("redeliver: join reads the records before the head", "DEATHS=0 JOIN RECORDS_BEFORE_HEAD", REDELIVER),
    Case(
        "redeliver: the slot is cleared before the return",
        "MANAGER_DEATHS=1 SWEPT_BEFORE_RETURN",
        REDELIVER,
    ),
    Case("broadcast: a joining reader reads the count once", TWO + "COUNT_ONCE", BROADCAST),
    Case("broadcast: it reads the count before it is known", TWO + "COUNT_BEFORE_ACTIVE", BROADCAST),
    Case("broadcast: a reader does not check what it copied", ONE + "DROP NO_CHECK", BROADCAST),
    Case("broadcast: a reader passes a message before it holds it", ONE + "PASS_BEFORE_HOLD", BROADCAST),
    Case("broadcast: the oldest is cancelled before the count", ONE + "DROP CANCEL_BEFORE_COUNT", BROADCAST),
    Case("broadcast: no spare entry", ONE + "DROP NO_SPARE", BROADCAST),
    Case("broadcast: no spare entry, a death", "READERS=1 DROP NO_SPARE", BROADCAST),
    Case("broadcast: the last reader keeps a message", ONE + "READER_KEEPS", BROADCAST),
    Case("broadcast: a writer whose readers have left keeps it", ONE + "WRITER_KEEPS", BROADCAST),
    Case("broadcast: a leaving reader keeps its messages", ONE + "LEAVE_MESSAGES", BROADCAST),
    Case("broadcast: a leaving reader notifies no writer", ONE + "LEAVE_SILENTLY", BROADCAST),
    Case("broadcast: a waiter checks, then announces itself", ONE + "LOOK_BEFORE_ANNOUNCING", BROADCAST),
    Case("broadcast: a ticket before its record", "READERS=1 TICKET_BEFORE_RECORD", BROADCAST),
    Case("broadcast: no ticket is cancelled for a dead writer", "READERS=1 NO_CANCEL", BROADCAST),
    Case("broadcast: a dead reader is waited for", "READERS=1 KEEP_RECORDS", BROADCAST),
    Case("broadcast: a dead reader's messages are kept", "READERS=1 KEEP_PASSED", BROADCAST),
    Case("broadcast: a sweep wakes no waiter", "READERS=1 NO_WAKE_IN_SWEEP", BROADCAST),
    Case(
        "broadcast: the slot is cleared before the repair",
        "READERS=1 MESSAGES=2 MANAGER_DEATHS=1 SWEPT_BEFORE_REPAIR",
        BROADCAST,
    ),
    Case(
        "broadcast: the lock is free before the repair",
        "WRITERS=2 READERS=1 MESSAGES=2 LEAVES=0 COARSE UNLOCK_BEFORE_REPAIR",
        BROADCAST,
    ),
]


@dataclass
class Outcome:
    error: str | None
    states: int
    megabytes: float
    seconds: float
    complete: bool


def search(case: Case) -> Outcome:
    """Build the verifier of one case and run it."""
    defines = [f"-D{word}" for word in case.defines.split()]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        subprocess.run(
            ["spin", "-a", *defines, HERE / case.model], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        options = ["-O1", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}"]
        subprocess.run(["cc", *options, "-o", "pan", "pan.c"], cwd=folder, check=True)
        verifier = ["./pan", "-m200000"]
        done = subprocess.run(
            verifier, check=False, cwd=folder, text=True, stdout=subprocess.PIPE, timeout=SECONDS
        )
        seconds = time.monotonic() - begin
    error = re.search(r"^pan:\d+: (.*?) \(at depth", out := done.stdout, re.MULTILINE)
    states = int(re.search(r"(\d+) states, stored", out).group(1))
    memory = float(re.search(r"([\d.]+)\s+total actual memory usage", out).group(1))
    complete = "Search not completed" not in out or error is not None
    return Outcome(error.group(1) if error else None, states, memory, seconds, complete)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", action="store_true", help="only these: they are quick")
    parser.add_argument("--only", default="", help="cases whose names begin so, as `queue:`")
    args = parser.parse_args()
    if not (shutil.which("spin") and shutil.which("cc")):
        print("the models need Spin and a C compiler: apt-get install spin gcc", file=sys.stderr)
        return 2
    failed = 0
    print(f"{'result':8} {'states':>12} {'MB':>7} {'s':>7}  case")
    for case in [
        *([] if args.mutations else RIGHT),
        *(Case(c.name, c.defines, c.model, True) for c in WRONG),
    ]:
        if not case.name.startswith(args.only):
            continue
        outcome = search(case)
        good = outcome.complete and (outcome.error is not None) == case.wrong
        word = ("found" if case.wrong else "right") if good else "FAILED"
        print(
            f"{word:8} {outcome.states:12,} {outcome.megabytes:7.0f} {outcome.seconds:7.1f}  {case.name}",
            flush=True,
        )
        if not good:
            print(
                f"    {outcome.error or 'no error was found'}; {case.model} with {case.defines}", flush=True
            )
            failed += 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
