// Members that die, vanish or come back.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <memory>
#include <vector>

#include "arena/segment.hpp"
#include "os/shm_object.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Client;
using testing::eventually;
using testing::kSmall;
using testing::Peer;
using testing::Shared;
using testing::Turn;

struct Word {
  Turn turn;
  testing::Sent sent;
  SlotNumber slot;
  std::uint32_t incarnation;
};

class ServerDeaths : public testing::ServerTest {
 protected:
  /// A member in a process of its own that has an arena with one block.
  template <typename Then>
  void live_with_a_block(Strategy strategy, Then&& then) {
    const Joined member = join();
    Peer peer(*member.memory, member.slot);
    const auto arena = std::make_unique<Arena>(
        Segment::create(id_, 1, member.slot, member.incarnation, strategy, kSmall), peer.member(),
        &peer.budget());
    Message message = message_for(MessageKind::register_arena, id_);
    message.arena = 1;
    const Segment::File file = arena->segment().file();
    ASSERT_EQ(member.client->ask(message, strategy == Strategy::file_system ? nullptr : &*file)
                  ->message.kind,
              MessageKind::done);
    const BlockNumber block = *arena->allocate(5 * kMiB);
    word_->slot = member.slot;
    then(*arena, block);
  }
  [[nodiscard]] bool gone(const SessionMemory& memory, SlotNumber slot) const {
    return memory.slot(slot).status.load() == SlotStatus::unused;
  }

  const Shared<Word> word_;
};

TEST_F(ServerDeaths, SlotOfKilledMemberIsReusedWithNewIncarnation) {
  const Joined member = join();
  Child child([&] {
    const Joined doomed = join();
    word_->slot = doomed.slot;
    word_->incarnation = doomed.incarnation;
    doomed.memory->slot(doomed.slot).busy_since.store(1);
    word_->turn.set(1);
    ::pause();
  });
  ASSERT_TRUE(word_->turn.reaches(1));
  EXPECT_EQ(statistics(*member.client).processes, 2u);
  child.kill();  // and not reaped: a zombie counts as dead
  EXPECT_TRUE(eventually([&] { return gone(*member.memory, word_->slot); }));
  EXPECT_TRUE(eventually([&] { return member.memory->header().deaths.load() == 1; }));
  const Joined next = join();
  EXPECT_EQ(next.slot, word_->slot);
  EXPECT_EQ(next.incarnation, word_->incarnation + 1);
  EXPECT_EQ(next.memory->slot(next.slot).busy_since.load(), 0u) << "the next one has begun no task";
}

TEST_F(ServerDeaths, MembersThatDieTogetherAreSweptBeforeTheNextRequest) {
  constexpr int kMembers = 10;
  const Joined member = join();
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 1; i <= kMembers; ++i) {
    children.push_back(std::make_unique<Child>([&, i] {
      const Joined doomed = join();
      word_->turn.set(i);
      ::pause();
    }));
    ASSERT_TRUE(word_->turn.reaches(i));
  }
  EXPECT_EQ(statistics(*member.client).processes, kMembers + 1u);
  ::kill(server_->pid(), SIGSTOP);
  for (const auto& child : children) child->kill_and_reap();
  ::kill(server_->pid(), SIGCONT);
  EXPECT_EQ(statistics(*member.client).processes, 1u) << "before the next request is answered";
  EXPECT_EQ(member.memory->header().deaths.load(), std::uint64_t{kMembers});
  EXPECT_EQ(join().slot, 1u);
}

TEST_F(ServerDeaths, BlocksAndEmptyArenaOfDeadMemberAreFreed) {
  for (const Strategy strategy : {Strategy::file_descriptor, Strategy::file_system}) {
    const Joined member = join();
    word_->turn.set(0);
    Child child([&] {
      live_with_a_block(strategy, [&](Arena&, BlockNumber) {
        word_->turn.set(1);
        ::pause();
      });
    });
    ASSERT_TRUE(word_->turn.reaches(1));
    EXPECT_EQ(statistics(*member.client).blocks, 1u);
    EXPECT_EQ(statistics(*member.client).arenas, 1u);
    child.kill_and_reap();
    EXPECT_TRUE(eventually([&] { return statistics(*member.client).arenas == 0; }));
    EXPECT_EQ(statistics(*member.client).blocks, 0u);
    EXPECT_TRUE(list_shm(object_name(id_)).empty());
  }
}

// Its creator was killed before it registered the name, so no process would ever remove it. A name
// that another process is about to register is kept.
TEST_F(ServerDeaths, UnregisteredNameOfDeadMemberIsRemoved) {
  const Joined member = join();
  const auto mine =
      Segment::create(id_, 2, member.slot, member.incarnation, Strategy::file_system, kSmall);
  Child child([&] {
    const Joined doomed = join();
    static_cast<void>(create_shm(arena_name(id_, 3)));
    word_->turn.set(1);
    ::pause();
  });
  ASSERT_TRUE(word_->turn.reaches(1));
  if (!shm_in_use(arena_name(id_, 3))) GTEST_SKIP() << "the kernel does not support leases here";
  child.kill_and_reap();
  EXPECT_TRUE(eventually([&] { return list_shm(arena_name(id_, 3)).empty(); }));
  Message message = message_for(MessageKind::register_arena, id_);
  message.arena = 2;
  EXPECT_EQ(member.client->ask(message)->message.kind, MessageKind::done);
  EXPECT_TRUE(unlink_shm(arena_name(id_, 2)));
}

TEST_F(ServerDeaths, MessageOfDeadMemberIsDelivered) {
  for (const Strategy strategy : {Strategy::file_descriptor, Strategy::file_system}) {
    const Joined member = join();
    Child child([&] {
      live_with_a_block(strategy, [&](Arena& arena, BlockNumber block) {
        arena.bytes(block, Access::read_write)[4 * kMiB] = std::byte{3};
        static_cast<void>(arena.allocate(8 * kMiB));  // held only by the dead member
        word_->sent = testing::send(arena, block);
        ::raise(SIGKILL);
      });
    });
    EXPECT_EQ(child.wait(), -SIGKILL);
    EXPECT_TRUE(eventually([&] { return statistics(*member.client).blocks == 1; }));
    EXPECT_EQ(statistics(*member.client).in_flight, 1u);
    // The gaps between live blocks are released.
    EXPECT_TRUE(eventually([&] { return statistics(*member.client).bytes_reserved < 8 * kMiB; }));

    Message message = message_for(MessageKind::find_arena, id_);
    message.arena = 1;
    auto reply = member.client->ask(message);
    ASSERT_EQ(reply->message.kind, MessageKind::done);
    auto segment = strategy == Strategy::file_system ? Segment::open_named(id_, 1)
                                                     : Segment::open(id_, 1, std::move(reply->fd));
    EXPECT_EQ(segment->header().orphaned.load(), 1u);
    segment->ensure_plane(member.slot);
    Peer peer(*member.memory, member.slot);
    Arena arena(std::move(segment), peer.member(), nullptr);
    ASSERT_TRUE(testing::receive(arena, word_->sent));
    EXPECT_EQ(arena.bytes(word_->sent.block, Access::read_only)[4 * kMiB], std::byte{3});
    arena.release(word_->sent.block);
    EXPECT_TRUE(eventually([&] { return statistics(*member.client).arenas == 0; }));
    EXPECT_TRUE(list_shm(object_name(id_)).empty());
  }
}

// Regression: the manager could not open the dead member's arena by its name to free memory. It
// considered the name removed, dropped the arena, and removed the name when the next member died:
// the message was lost.
TEST_F(ServerDeaths, ManagerWithoutDescriptorsKeepsMessage) {
  const Joined member = join();
  Child second([&] {
    const Joined joined = join();
    word_->turn.set(1);
    ::pause();
  });
  ASSERT_TRUE(word_->turn.reaches(1));
  Child child([&] {
    live_with_a_block(Strategy::file_system, [&](Arena& arena, BlockNumber block) {
      word_->sent = testing::send(arena, block);
      word_->turn.set(2);
      ::pause();
    });
  });
  ASSERT_TRUE(word_->turn.reaches(2));
  const rlimit none{3, 3};
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  child.kill_and_reap();
  const auto dead = [&](std::uint32_t count) {
    return eventually([&] { return member.memory->header().deaths.load() == count; });
  };
  ASSERT_TRUE(dead(1));
  EXPECT_EQ(statistics(*member.client).in_flight, 1u) << "it has processed the arena by now";
  second.kill();
  ASSERT_TRUE(dead(2));
  EXPECT_EQ(statistics(*member.client).arenas, 1u);
  EXPECT_TRUE(unlink_shm(arena_name(id_, 1)));
}

TEST_F(ServerDeaths, MemberThatClosedItsDescriptorsIsAlive) {
  const Joined member = join();
  const Joined careless = join();
  careless.client->close();
  // It still maps the session's memory.
  EXPECT_EQ(statistics(*member.client).processes, 2u);
  Message message = message_for(MessageKind::hello, id_);
  message.slot = careless.slot;
  message.incarnation = careless.incarnation;
  std::optional<Reply> reply;
  EXPECT_TRUE(eventually([&] {
    // The manager may not have noticed yet that the old connection is closed.
    reply = Client(id_).ask(message);
    return reply->message.kind == MessageKind::welcome;
  }));
  EXPECT_EQ(reply->message.slot, careless.slot);
  EXPECT_EQ(reply->message.incarnation, careless.incarnation);
}

// Regression: a reply was lost because the member had no descriptor left. Its child keeps the
// connection open until its handler runs; for that time the manager considered the member dead.
TEST_F(ServerDeaths, DisconnectedMemberReconnectsDespiteChildsDescriptors) {
  Connection line = Connection::open(id_, "");
  Message hello = message_for(MessageKind::hello, id_);
  hello.join = Join::create;
  std::optional<Reply> reply = line.ask(hello);
  const auto memory = SessionMemory::open(id_, std::move(reply->fd));
  hello.slot = reply->message.slot;
  hello.incarnation = reply->message.incarnation;
  const auto slot = static_cast<SlotNumber>(hello.slot);
  ASSERT_TRUE(memory->enter(slot, SlotStatus::joining));
  const auto arena =
      Segment::create(id_, 1, slot, hello.incarnation, Strategy::file_descriptor, kSmall);
  Message message = message_for(MessageKind::register_arena, id_);
  message.arena = 1;
  ASSERT_TRUE(line.ask(message, (*arena->file()).get()));
  Child child([] { ::pause(); });

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  message.kind = MessageKind::find_arena;
  EXPECT_THROW(static_cast<void>(line.ask(message)), OsError);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(line);

  ++hello.incarnation;
  line = Connection::open(id_, "");
  EXPECT_THROW(static_cast<void>(line.ask(hello)), SessionError);
  EXPECT_FALSE(line) << "a process unknown to the manager cannot use it";
  --hello.incarnation;
  line = Connection::open(id_, "");
  EXPECT_EQ(line.ask(hello)->message.kind, MessageKind::welcome);
}

// It closed its descriptors, and unmapped the session later, which the manager cannot notice.
TEST_F(ServerDeaths, DisconnectedMemberThatUnmapsHasLeft) {
  Child child([&] {
    Joined careless = join();
    word_->slot = careless.slot;
    careless.client->close();
    word_->turn.set(1);
    ASSERT_TRUE(word_->turn.reaches(2));
    careless.memory.reset();
    ::pause();
  });
  ASSERT_TRUE(word_->turn.reaches(1));
  const Joined member = join();
  EXPECT_EQ(statistics(*member.client).processes, 2u);
  word_->turn.set(2);
  EXPECT_TRUE(eventually([&] { return gone(*member.memory, word_->slot); }));
  EXPECT_TRUE(is_alive({child.pid(), 0}));
}

TEST_F(ServerDeaths, OnlyTheSameProcessReconnects) {
  const Joined member = join();
  const auto come_back = [&](std::uint32_t slot, std::uint32_t incarnation) {
    Message message = message_for(MessageKind::hello, id_);
    message.slot = slot;
    message.incarnation = incarnation;
    return refusal(Client(id_).ask(message));
  };
  const std::string dead = "the slot was reclaimed: the manager considered this process dead";
  EXPECT_EQ(come_back(member.slot, member.incarnation + 1), dead);
  EXPECT_EQ(come_back(member.slot + 1, member.incarnation), dead) << "an unassigned slot";
  EXPECT_EQ(come_back(kMaxSlots - 1, 0), dead);
  testing::in_child([&] { EXPECT_EQ(come_back(member.slot, member.incarnation), dead); });
  EXPECT_EQ(statistics(*member.client).processes, 1u) << "its connection is still open";
  member.client->close();
  testing::in_child([&] { EXPECT_EQ(come_back(member.slot, member.incarnation), dead); });
  EXPECT_EQ(come_back(member.slot, member.incarnation), "");
}

// The manager is behind: the end of the former connection is after messages that it has not read.
TEST_F(ServerDeaths, MemberReconnectsBeforeItsFormerConnectionIsRead) {
  const Joined member = join();
  const Message notice = message_for(MessageKind::drain, id_);
  Message message = message_for(MessageKind::hello, id_);
  message.slot = member.slot;
  message.incarnation = member.incarnation;
  ASSERT_EQ(::kill(server_->pid(), SIGSTOP), 0);
  for (int i = 0; i < 5; ++i) member.client->send_bytes(std::as_bytes(std::span(&notice, 1)));
  member.client->close();
  Client again(id_);
  again.send_bytes(std::as_bytes(std::span(&message, 1)));
  ASSERT_EQ(::kill(server_->pid(), SIGCONT), 0);
  EXPECT_EQ(refusal(again.receive()), "");
}

// As when a raw copy of the process has the connection, too, and the program closed its own.
TEST_F(ServerDeaths, MemberReconnectsWhileItsFormerConnectionIsOpen) {
  const Joined member = join();
  Message message = message_for(MessageKind::hello, id_);
  message.slot = member.slot;
  message.incarnation = member.incarnation;
  Client again(id_);
  EXPECT_EQ(refusal(again.ask(message)), "");
  EXPECT_FALSE(member.client->receive()) << "the manager closed it";
  EXPECT_EQ(statistics(again).processes, 1u);
}

TEST_F(ServerDeaths, MemberThatExecutedAnotherProgramHasLeft) {
  const Joined member = join();
  Child child([&] {
    const Joined doomed = join();
    word_->slot = doomed.slot;
    word_->turn.set(1);
    ::execl("/bin/sleep", "sleep", "30", nullptr);
  });
  ASSERT_TRUE(word_->turn.reaches(1));
  EXPECT_TRUE(eventually([&] { return gone(*member.memory, word_->slot); }));
  EXPECT_TRUE(is_alive({child.pid(), 0}));
}

}  // namespace
}  // namespace shmtensor
