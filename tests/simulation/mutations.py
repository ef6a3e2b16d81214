"""Plants errors in the core, one at a time, and checks that the simulation finds each.

Each mutation changes one file in a copy of the tree: `make simulation-mutations`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    changes: tuple[tuple[str, str], ...]  # a text that occurs once, and what replaces it

    @property
    def programs(self) -> str:
        """The beginning of the names of the programs that run."""
        return self.name.partition(":")[0]


def mutation(name: str, file: str, *changes: tuple[str, str]) -> Mutation:
    return Mutation(name, file, changes)


BIT = "fetch_or(bit_of(member_.slot()));\n"
LIVE = """  record.word.store(BlockWord::live_at(BlockWord(record.word.load()).generation()).bits(),
                    std::memory_order_release);  // after the bit
"""
BLOCKS = [
    mutation(
        "blocks: a ticket moves no epoch",
        "csrc/arena/arena.cpp",
        ("while (!state.compare_exchange_weak(word, BlockWord(word).next_epoch().bits())) {\n  }\n", ""),
    ),
    mutation(
        "blocks: holders are not read again after the tickets",
        "csrc/arena/reclaim.cpp",
        ("bits again.\n  if (has_holder(segment, block)) return FreeResult::none;\n", "bits again.\n"),
    ),
    mutation(
        "blocks: the ticket is claimed before the bit is set",
        "csrc/arena/arena.cpp",
        (
            f"  holders.{BIT}  bool held = transit != nullptr && transit->claim(named);\n",
            f"  bool held = transit != nullptr && transit->claim(named);\n  holders.{BIT}",
        ),
    ),
    mutation(
        "blocks: a hold without a ticket moves no epoch",
        "csrc/arena/arena.cpp",
        ("held = state.compare_exchange_weak(word, BlockWord(word).next_epoch().bits());", "held = true;"),
    ),
    mutation(
        "blocks: a sweep tries only what the dead one held",
        "csrc/arena/reclaim.hpp",
        (
            "    for (std::uint32_t planes = concerned;",
            "    bool held = false;\n    for (auto planes = concerned;",
        ),
        ("      holders.fetch_and(~bits);\n", "      holders.fetch_and(~bits);\n      held = true;\n"),
        ("    const BlockWord word(", "    if (!held) continue;\n    const BlockWord word("),
    ),
    mutation(
        "blocks: a block is live before its owner's bit",
        "csrc/arena/arena_allocate.cpp",
        (f"  segment_->holders(plane_of(member_.slot()), block).{BIT}", ""),
        (LIVE, f"{LIVE}  segment_->holders(plane_of(member_.slot()), block).{BIT}"),
    ),
    mutation(
        "blocks: a freed block keeps its generation",
        "csrc/arena/block_word.hpp",
        ("kLastGeneration : generation() + 1);", "kLastGeneration : generation());"),
    ),
    mutation(
        "blocks: planes are not read again after the tickets",
        "csrc/arena/reclaim.cpp",
        (
            "bool has_holder(const Segment& segment, BlockNumber block) noexcept {\n"
            "  for (std::uint32_t planes = segment.planes(); planes",
            "static bool has_holder_in(const Segment& segment, BlockNumber block, std::uint32_t planes) {\n"
            "  for (; planes",
        ),
        (
            "// The bit may be on a free block:",
            "bool has_holder(const Segment& segment, BlockNumber block) noexcept {\n"
            "  return has_holder_in(segment, block, segment.planes());\n}\n\n"
            "// The bit may be on a free block:",
        ),
        (
            "bits again.\n  if (has_holder(segment, block)) return",
            "bits again.\n  if (has_holder_in(segment, block, seen)) return",
        ),
        (
            "  if (!word.live()) return FreeResult::none;\n",
            "  if (!word.live()) return FreeResult::none;\n  const std::uint32_t seen = segment.planes();\n",
        ),
    ),
]
# Planted for queues and for broadcasts.
LOOK_FIRST = (
    "csrc/channel/spin_then_sleep.hpp",
    (
        "  const std::uint32_t announced = flag.announce();\n  if (ready()) return;\n",
        "  if (ready()) return;\n  const std::uint32_t announced = flag.announce();\n",
    ),
)
PUBLISH_FIRST = (
    "csrc/arena/transit.cpp",
    (
        "  record.write({arena, block, generation, ticket});\n  publish(ticket);\n",
        "  publish(ticket);\n  record.write({arena, block, generation, ticket});\n",
    ),
)
END_EARLY = (
    "csrc/channel/channel_call.cpp",
    (
        "  OwnerLock lock(tail.lock);\n  if (lock.try_lock_briefly(",
        "  return Attempt::shut_down;\n  OwnerLock lock(tail.lock);\n  if (lock.try_lock_briefly(",
    ),
)
NO_WAKE = ("    WaitFlag(*word).wake_everyone();\n", "    static_cast<void>(word);\n")
QUEUES = [
    mutation(
        "queue: a ticket before its record",
        *PUBLISH_FIRST,
    ),
    mutation(
        "queue: a message is counted as taken before the claim",
        "csrc/channel/queue_take.cpp",
        (
            "    bool taken = false;\n    if (record) {",
            "    bool taken = false;\n    count_taken(head + 1);\n    if (record) {",
        ),
        ("    count_taken(head + 1);\n    if (taken)", "    if (taken)"),
    ),
    mutation(
        "queue: no ticket is cancelled for a dead producer",
        "csrc/queue/repair.cpp",
        ("    cancel_named(ring.entry(queue.tail.count.load()).ticket, tickets);\n", ""),
    ),
    mutation(
        "queue: no message is skipped for a dead consumer",
        "csrc/queue/repair.cpp",
        ("  queue.head.count.store(head + 1);\n", ""),
    ),
    mutation(
        "queue: a waiter checks, then announces itself",
        *LOOK_FIRST,
    ),
    mutation(
        "queue: the word is cleared without a wake",
        "csrc/queue/wait_flag.hpp",
        ("    wake_all(word_);\n", ""),
    ),
    mutation(
        "queue: a sweep wakes no waiter",
        "csrc/queue/repair.cpp",
        NO_WAKE,
    ),
    mutation(
        "queue: the lock of a dead producer is free before the repair",
        "csrc/queue/repair.cpp",
        (
            "    repair_tail(queue, tickets);\n",
            "    tail.unlock_for_dead();\n    repair_tail(queue, tickets);\n",
        ),
    ),
    mutation(
        "queue: the lock of a dead consumer is free before the repair",
        "csrc/queue/repair.cpp",
        (
            "    repair_head(queue, kept, tickets);\n",
            "    head.unlock_for_dead();\n    repair_head(queue, kept, tickets);\n",
        ),
    ),
]
READER = "csrc/channel/broadcast_reader.cpp"
PUT = "csrc/channel/broadcast_put.cpp"
REPAIR = "csrc/queue/broadcast_repair.cpp"
BROADCASTS = [
    mutation(
        "broadcast: a joining reader reads the count once",
        READER,
        ("  const std::uint64_t count = header.tail.count.load();", "  const std::uint64_t count = first;"),
    ),
    mutation(
        "broadcast: it reads the count again before it is known",
        READER,
        ("  const std::uint64_t count = header.tail.count.load();\n", ""),
        (
            "  record_->owner.store(ReaderRecord::owned_by(owner_.slot) | ReaderRecord::kReads);\n",
            "  const std::uint64_t count = header.tail.count.load();\n"
            "  record_->owner.store(ReaderRecord::owned_by(owner_.slot) | ReaderRecord::kReads);\n",
        ),
    ),
    mutation(
        "broadcast: a reader does not check what it copied",
        READER,
        ("  if (!ring.in_window(number)) return Step::again;\n", ""),
    ),
    mutation(
        "broadcast: a reader passes a message before it holds it",
        READER,
        (
            "  if (arena == nullptr || !hold_message(",
            "  record_->next.store(number + 1);\n  if (arena == nullptr || !hold_message(",
        ),
    ),
    mutation(
        "broadcast: the oldest is cancelled before the count",
        PUT,
        (
            "  ring_.header().tail.count.store(tail + 1);\n",
            "  cancel(oldest, call);\n  ring_.header().tail.count.store(tail + 1);\n",
        ),
    ),
    mutation(
        "broadcast: no spare entry",
        "csrc/queue/broadcast_layout.hpp",
        ("    return limit + 1;\n", "    return limit;\n"),
    ),
    mutation(
        "broadcast: the last reader keeps a message",
        READER,
        ("  if (ring.have_passed(number + 1)) {", "  if (false) {"),
    ),
    mutation(
        "broadcast: a writer whose readers have left keeps it",
        PUT,
        ("  if (message.block.arena != nullptr && ring_.have_passed(number + 1)) {", "  if (false) {"),
    ),
    mutation(
        "broadcast: a leaving reader keeps its messages",
        READER,
        ("  broadcast_.wake_writers();\n  broadcast_.release(next);\n", "  broadcast_.wake_writers();\n"),
    ),
    mutation(
        "broadcast: a leaving reader notifies no writer",
        READER,
        ("  broadcast_.wake_writers();\n  broadcast_.release(next);\n", "  broadcast_.release(next);\n"),
    ),
    mutation(
        "broadcast: a waiter checks, then announces itself",
        *LOOK_FIRST,
    ),
    mutation(
        "broadcast: a ticket before its record",
        *PUBLISH_FIRST,
    ),
    mutation(
        "broadcast: no ticket is cancelled for a dead writer",
        REPAIR,
        ("    repair_tail(ring, tickets);\n", "    static_cast<void>(&repair_tail);\n"),
    ),
    mutation(
        "broadcast: a dead reader is waited for",
        REPAIR,
        ("    if (dead.has(reader.slot())) reader.owner.store(0);\n", "    static_cast<void>(reader);\n"),
    ),
    mutation(
        "broadcast: a dead reader's messages are kept",
        REPAIR,
        ("  cancel_passed(ring, tickets);\n", "  static_cast<void>(&cancel_passed);\n"),
    ),
    mutation(
        "broadcast: a sweep wakes no waiter",
        REPAIR,
        NO_WAKE,
    ),
    mutation(
        "broadcast: the lock is free before the repair",
        REPAIR,
        (
            "    repair_tail(ring, tickets);\n",
            "    tail.unlock_for_dead();\n    repair_tail(ring, tickets);\n",
        ),
    ),
]
TAKE = "csrc/channel/queue_take.cpp"
QUEUE_PUT = "csrc/channel/queue_put.cpp"
QUEUE_REPAIR = "csrc/queue/repair.cpp"
RINGS = [
    mutation(
        "queue/rings: past: the rings are read before the count",
        TAKE,
        (
            "    const std::uint64_t tail = header_.tail.count.load();\n    if (const Attempt lack",
            "    if (const Attempt lack",
        ),
        (
            "    if (head == tail) {\n",
            "    const std::uint64_t tail = header_.tail.count.load();\n    if (head == tail) {\n",
        ),
    ),
    mutation(
        "queue/rings: a ring is in use before its start is written",
        QUEUE_PUT,
        (
            "  record.ticket.clear();\n  record.start",
            "  header_.tail.ring.store(number);\n  record.ticket.clear();\n  record.start",
        ),
    ),
    mutation(
        "queue/rings: a return to the first ring with messages",
        QUEUE_PUT,
        (
            "!is_full && head == tail && next_is_free && ring.begins_at(tail) &&",
            "!is_full && head < tail && next_is_free &&",
        ),
    ),
    mutation(
        "queue/rings: the oldest ring has ended before its ticket",
        TAKE,
        (
            "    const RingRecord& record = header_.ring(number);\n",
            "    const RingRecord& record = header_.ring(number);\n"
            "    header_.head.ring.store(number + 1);\n",
        ),
    ),
    mutation(
        "queue/rings: a dead producer's ring is kept",
        QUEUE_REPAIR,
        ("    cancel_named(queue.ring(number + 1).ticket, tickets);\n", ""),
    ),
    mutation(
        "queue/rings: the ring of the head has ended",
        QUEUE_REPAIR,
        ("ring_of_head(queue, head)", "queue.head.ring.load()"),
    ),
]
THREADS_AND_FORKS = [
    mutation(
        "blocks/fork: a fork moves no epoch",
        "csrc/arena/arena.cpp",
        ("fetch_or(bit_of(child));\n    change_epoch(block);\n", "fetch_or(bit_of(child));\n"),
    ),
    mutation(
        "blocks/threads: an entry is unlocked before the bit is cleared",
        "csrc/arena/arena.cpp",
        (
            "  segment_->holders(plane_of(member_.slot()), block).fetch_and(~bit_of(member_.slot()));\n"
            "  lock.set_count(0);\n",
            "  lock.set_count(0);\n",
        ),
        (
            "  if (last) unpin_and_try_free(block);\n",
            "  if (!last) return;\n"
            "  segment_->holders(plane_of(member_.slot()), block).fetch_and(~bit_of(member_.slot()));\n"
            "  unpin_and_try_free(block);\n",
        ),
    ),
    mutation(
        "queue/two threads: a lock is its process's",
        "csrc/queue/owner_lock.hpp",
        (
            "    std::uint32_t free = 0;\n",
            "    if (word_.load() == slot + 1u) return true;\n    std::uint32_t free = 0;\n",
        ),
    ),
]
QUEUE_WATCH = "csrc/channel/queue_watch.cpp"
WATCHES = [
    mutation(
        "queue/watch: the flag is disarmed after the message is counted",
        "csrc/channel/queue.hpp",
        ("    if (armed) flag.disarm();\n    change();\n", "    change();\n    if (armed) flag.disarm();\n"),
    ),
    mutation(
        "queue/watch: the flag is armed without the lock",
        QUEUE_WATCH,
        (
            "    if (!lock.lock_within(session.slot(), kLockTime)) return;\n"
            "    const OwnerLockGuard locked(lock);\n",
            "",
        ),
    ),
    mutation(
        "queue/watch/shutdown: the event is looked for once only",
        QUEUE_WATCH,
        ("    if (!event.has_happened()) return;\n", "    return;\n"),
    ),
    mutation(
        "queue/watch/another consumer: it does not settle",
        QUEUE_WATCH,
        (
            "  if (state == nullptr) return !event.flag.is_armed();\n",
            "  if (state == nullptr) return false;\n",
        ),
    ),
    mutation(
        "queue/watch: the manager's death wakes no watcher",
        QUEUE_WATCH,
        ("  ends.poller.add(ours, 0);\n", ""),
        ("  if (ends.socket) ends.poller.remove(ends.socket);\n", ""),
    ),
    mutation(
        "queue/watch: a sweep wakes no watcher",
        "csrc/manager/arena_registry.cpp",
        ("            if (!happened || ", "            if (true || !happened || "),
    ),
]
CONTENTS = [
    mutation(
        "blocks/contents: a block with tickets is freed",
        "csrc/arena/reclaim.cpp",
        ("const bool drains = segment.record(block).contents.load() != 0;", "const bool drains = false;"),
    ),
    mutation(
        "blocks/contents: the owner uses a draining block",
        "csrc/arena/allocator.cpp",
        ("  if (!word.is_free()) return;\n", "  if (word.live()) return;\n"),
    ),
    mutation(
        "blocks/contents: a block is free before its tickets are cancelled",
        "csrc/manager/drain.cpp",
        (
            "  if (contents.fit(bytes->size())) {",
            "  record.word.store(word.freed().bits());\n  if (contents.fit(bytes->size())) {",
        ),
    ),
    mutation(
        "blocks/contents: a sweep skips a draining block with a holder's bit",
        "csrc/arena/reclaim.hpp",
        (
            "    if (word.is_draining()) {\n",
            "    if (word.is_draining() && has_holder(segment, block)) continue;\n"
            "    if (word.is_draining()) {\n",
        ),
    ),
    mutation(
        "blocks/contents: a process holds a draining block",
        "csrc/arena/arena.cpp",
        (
            "while (!held && BlockWord(word).live_at_generation(named.generation)) {",
            "while (!held && (BlockWord(word).live() || BlockWord(word).is_draining()) &&\n"
            "           BlockWord(word).generation() == named.generation) {",
        ),
    ),
]
KEEP = "csrc/channel/queue_keep.cpp"
REDELIVERY = [
    mutation(
        "queue/redelivery: a message is counted before it has an owner",
        KEEP,
        (
            "  kept_.own(number, session_.slot());\n  (*received_)[number].store(thread_number());\n"
            "  entry.ticket.clear();\n",
            "  count_taken(position + 1);\n  kept_.own(number, session_.slot());\n"
            "  (*received_)[number].store(thread_number());\n  entry.ticket.clear();\n",
        ),
    ),
    mutation(
        "queue/redelivery: a record is free before its ticket is cancelled",
        KEEP,
        (
            "  const MessageEntry& message = kept_.message(number);\n  if (",
            "  const MessageEntry& message = kept_.message(number);\n"
            "  kept_.record(number).owner.store(0);\n  if (",
        ),
    ),
    mutation(
        "queue/redelivery: a completed message is returned",
        "csrc/queue/repair.cpp",
        (
            "records[i].owner.store(completed ? 0 : KeptRecord::kReturned);",
            "records[i].owner.store(KeptRecord::kReturned);",
        ),
    ),
    mutation(
        "queue/redelivery: a message that was kept is not counted",
        "csrc/queue/repair.cpp",
        ("  if (kept.has(head)) {", "  if (false) {"),
    ),
    mutation(
        "queue/redelivery: a dead consumer's messages are not returned",
        "csrc/queue/repair.cpp",
        ("  return_messages(kept, dead, tickets);\n", "  static_cast<void>(&return_messages);\n"),
    ),
    mutation(
        "queue/redelivery/full ring: the entry names the ticket of a counted message",
        KEEP,
        ("  entry.ticket.clear();\n  message.kept = number;\n", "  message.kept = number;\n"),
    ),
    mutation(
        "queue/redelivery/shutdown: owned messages are looked for after returned ones",
        TAKE,
        ("    const bool owned = kept_.any_owned();\n", ""),
        (
            "    const std::uint64_t head = header_",
            "    const bool owned = kept_.any_owned();\n    const std::uint64_t head = header_",
        ),
    ),
    mutation(
        "queue/redelivery/shutdown: a consumer ends while another owns a message",
        TAKE,
        ("if (!stopped || owned) return", "static_cast<void>(owned);\n      if (!stopped) return"),
    ),
    mutation(
        "queue/redelivery/shutdown: a completion wakes no consumer",
        KEEP,
        ("  if (was_full || is_shut_down()) wake", "  if (was_full) wake"),
    ),
    mutation(
        "queue/redelivery/join: a completion does not end it",
        KEEP,
        ("  wake_joiners();\n  if (was_full", "  if (was_full"),
    ),
    mutation(
        "queue/redelivery/join: it reads the count of messages once",
        "csrc/channel/queue.cpp",
        (" && !kept_.any() && header_.tail.count.load() == tail;", " && !kept_.any();"),
    ),
    mutation(
        "queue/redelivery/join: it reads the records before the head",
        "csrc/channel/queue.cpp",
        (
            "header_.head.count.load() >= tail && !kept_.any()",
            "!kept_.any() && header_.head.count.load() >= tail",
        ),
    ),
    mutation(
        "queue/redelivery: a sweep wakes no waiter",
        "csrc/queue/repair.cpp",
        NO_WAKE,
    ),
]
# Errors that the core has had.
PAST = [
    mutation(
        "queue: past: the word does not count that it was cleared",
        "csrc/queue/wait_flag.hpp",
        ("(word | 1) + 1)", "word & ~1u)"),
    ),
    mutation(
        "queue/shutdown: past: a consumer ends while a message is being put",
        *END_EARLY,
    ),
    mutation(
        "broadcast/shutdown: past: a reader ends while a message is being put",
        *END_EARLY,
    ),
    mutation(
        "queue/three producers: past: a waiter without time leaves no mark at a lock",
        "csrc/queue/owner_lock.cpp",
        ("    const std::uint64_t now = monotonic_nanoseconds();\n    if (now >= end) return false;\n", ""),
        (
            "    std::uint32_t seen = word_.load(std::memory_order_relaxed);\n",
            "    const std::uint64_t now = monotonic_nanoseconds();\n    if (now >= end) return false;\n"
            "    std::uint32_t seen = word_.load(std::memory_order_relaxed);\n",
        ),
    ),
    mutation(
        "notices: past: a notice is left to a thread that does not look again",
        "csrc/session/manager_client.hpp",
        (
            "      client_.mutex_.unlock();\n      client_.send_notices();\n",
            "      client_.mutex_.unlock();\n",
        ),
    ),
]
# Accesses with an order that is too weak.
ORDERS = [
    mutation(
        "queue: order: a waiter announces itself with a release only",
        "csrc/queue/wait_flag.hpp",
        ("return word_.fetch_or(1) | 1;", "return word_.fetch_or(1, std::memory_order_release) | 1;"),
    ),
    mutation(
        "queue: order: whoever puts looks for waiters with an acquire only",
        "csrc/queue/wait_flag.hpp",
        ("return (word_.load() & 1) != 0;", "return (word_.load(std::memory_order_acquire) & 1) != 0;"),
    ),
    mutation(
        "queue: order: a message is counted with a relaxed store",
        "csrc/channel/queue_put.cpp",
        (
            "header_.tail.count.store(tail + 1);",
            "header_.tail.count.store(tail + 1, std::memory_order_relaxed);",
        ),
    ),
    mutation(
        "queue: order: a message is looked for with a relaxed load",
        "csrc/channel/queue_take.cpp",
        (
            "const std::uint64_t tail = header_.tail.count.load();",
            "const std::uint64_t tail = header_.tail.count.load(std::memory_order_relaxed);",
        ),
    ),
]
ALL = [
    *BLOCKS,
    *CONTENTS,
    *THREADS_AND_FORKS,
    *QUEUES,
    *WATCHES,
    *RINGS,
    *REDELIVERY,
    *BROADCASTS,
    *PAST,
    *ORDERS,
]


class Copy:
    """A copy of the sources with a build of the simulation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.build = folder / "build"
        for name in ("csrc", "tests/cpp", "tests/simulation"):
            for path in (ROOT / name).rglob("*"):
                self._copy(path)
        self._copy(ROOT / "CMakeLists.txt")
        options = ["-DSHMTENSOR_PYTHON=OFF", "-DSHMTENSOR_SIMULATION=ON", "-DCMAKE_UNITY_BUILD=ON"]
        self._run("cmake", "-S", str(folder), "-B", str(self.build), *options)
        self.compile()

    def _copy(self, path: Path) -> None:
        """Copy what differs, so that the build knows: a run that was killed leaves its error planted."""
        to = self.folder / path.relative_to(ROOT)
        if path.is_file() and not (to.exists() and to.read_bytes() == path.read_bytes()):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)

    def compile(self) -> None:
        self._run("cmake", "--build", str(self.build), "--target", "shmtensor-simulation", "-j2")

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(
            command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")

    def find(self, planted: Mutation) -> tuple[str, float]:
        """Return what the simulation reports of a planted error, and its time in seconds."""
        path = self.folder / planted.file
        original = path.read_text()
        text = original
        for old, new in planted.changes:
            if text.count(old) != 1:
                raise SystemExit(f"{planted.name}: {planted.file} has {text.count(old)} times: {old!r}")
            text = text.replace(old, new)
        path.write_text(text)
        try:
            self.compile()
            begin = time.monotonic()
            program = self.build / "tests/simulation/shmtensor-simulation"
            done = subprocess.run(
                [program, "--program", planted.programs, "--seconds", str(SECONDS), "--first-failure"],
                check=False,
                text=True,
                stdout=subprocess.PIPE,
                timeout=4 * SECONDS,
            )
            seconds = time.monotonic() - begin
        finally:
            path.write_text(original)
            os.utime(path)
        if done.returncode == 0:
            return "", seconds
        failed = re.search(r"^FAILED: (.*)|killed by signal \d+", done.stdout, re.MULTILINE)
        if failed is None:
            raise SystemExit(f"{planted.name}: the simulation did not run:\n{done.stdout[-4000:]}")
        again = re.search(r'--repeat ".*"', done.stdout)
        return f"{failed[1] or failed[0]} {again[0] if again else ''}", seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the copy and its build")
    parser.add_argument("--only", default="", help="mutations whose names contain this")
    args = parser.parse_args()
    copy = Copy(args.folder.resolve())
    missed = 0
    for planted in ALL:
        if args.only not in planted.name:
            continue
        what, seconds = copy.find(planted)
        print(f"{'found' if what else 'MISSED':7}{seconds:6.1f} s  {planted.name}: {what}", flush=True)
        missed += not what
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
