// Another manager takes over the processes of other PID namespaces.
#include <gtest/gtest.h>

#include "os/process.hpp"
#include "session/session.hpp"
#include "support/shared.hpp"
#include "support/takeover.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Shared;
using testing::Takeover;
using testing::Turn;

// Its pid is not valid here, but it has locked its slot.
TEST_F(Takeover, ExitOfProcessInOtherPidNamespaceIsDetected) {
  Joined member = join();
  Shared<Turn> turn;
  Child child([&] {
    const Joined other = join();
    turn->set(other.slot);
    ::closefrom(3);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  server_->kill();
  move_elsewhere(*member.memory, static_cast<SlotNumber>(turn->get()));
  server_ = std::make_unique<testing::ServerProcess>(id_);
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  const std::uint64_t deaths = member.memory->header().deaths.load();
  EXPECT_EQ(statistics(*member.client).processes, 2u);
  EXPECT_EQ(statistics(*member.client).processes, 2u) << "it has checked all slots";
  child.kill_and_reap();
  EXPECT_TRUE(eventually([&] { return statistics(*member.client).processes == 1; }));
  EXPECT_EQ(member.memory->header().deaths.load(), deaths + 1);
}

// /proc does not show which arenas such a process has.
TEST_F(Takeover, ArenasOfProcessInOtherPidNamespaceAreAwaited) {
  Joined member = join();
  Joined other = join();
  const auto is_awaited = [&] {
    const auto reply = find(member, 99);
    EXPECT_EQ(reply->message.kind, MessageKind::unknown);
    return reply->message.unfinished != 0;
  };
  EXPECT_FALSE(is_awaited());
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_FALSE(is_awaited());
  move_elsewhere(*member.memory, other.slot);
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_TRUE(is_awaited());
  EXPECT_EQ(hello_again(other, &other.memory->file()), "");
  EXPECT_TRUE(is_awaited()) << "it has yet to register them";
  const Message registered = message_for(MessageKind::registered, id_);
  other.client->send_bytes(std::as_bytes(std::span(&registered, 1)));
  EXPECT_TRUE(eventually([&] { return !is_awaited(); }));
}

TEST_F(Takeover, ArenasOfEndedProcessAreNotAwaited) {
  Joined member = join();
  Child child([&] {
    const Joined other = join();
    move_elsewhere(*other.memory, other.slot);
    ::pause();
  });
  ASSERT_TRUE(eventually([&] {
    const SlotRecord& record = member.memory->slot(1);
    return record.status.load() == SlotStatus::active &&
           record.pid_namespace.load() != pid_namespace();
  }));
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_NE(find(member, 99)->message.unfinished, 0u);
  child.kill_and_reap();
  EXPECT_TRUE(eventually([&] { return find(member, 99)->message.unfinished == 0; }));
}

// Its pid is not valid here: it may be alive, and reconnects when it needs a manager.
TEST_F(Takeover, ProcessInOtherPidNamespaceKeepsItsSlot) {
  Joined member = join();
  Shared<Turn> turn;
  Shared<SlotNumber> slot;
  Child child([&] {
    Joined other = join();
    *slot = other.slot;
    turn->set(1);
    ASSERT_TRUE(turn->reaches(2));
    EXPECT_EQ(hello_again(other, nullptr),
              "the slot was reclaimed: the manager considered this process dead");
    EXPECT_EQ(hello_again(other, &other.memory->file()), "");
    turn->set(::testing::Test::HasFailure() ? 4 : 3);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  const auto arena = make_arena(member, 1, Strategy::file_descriptor);
  arena->holders(plane_of(*slot), 0).fetch_or(bit_of(*slot));
  server_->kill();
  move_elsewhere(*member.memory, *slot);
  unlock(*member.memory, *slot);
  server_ = std::make_unique<testing::ServerProcess>(id_);
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_EQ(statistics(*member.client).processes, 2u);
  EXPECT_EQ(statistics(*member.client).processes, 2u) << "it has checked all slots";
  EXPECT_EQ(arena->holders(0, 0).load(), bit_of(member.slot) | bit_of(*slot));
  turn->set(2);
  ASSERT_TRUE(turn->reaches(3));
  EXPECT_EQ(turn->get(), 3);
  child.kill_and_reap();
  EXPECT_TRUE(eventually([&] { return statistics(*member.client).processes == 1; }))
      << "it is observed since it reconnected";
}

// No other process is connected: one that is alive starts another manager when it needs one.
TEST_F(Takeover, ProcessesInOtherPidNamespaceDoNotKeepTheManager) {
  const Joined member = join();
  static_cast<void>(create_shm(arena_name(id_, 3)));
  server_->kill();
  move_elsewhere(*member.memory, member.slot);
  unlock(*member.memory, member.slot);
  server_ = std::make_unique<testing::ServerProcess>(id_);
  const Fd& memory = member.memory->file();
  EXPECT_EQ(Client(id_).hello(Join::observe, &memory)->message.kind, MessageKind::welcome);
  EXPECT_EQ(server_->wait(), 0);
  EXPECT_FALSE(member.memory->has_manager());
  EXPECT_EQ(member.memory->slot(member.slot).status.load(), SlotStatus::unlocked);
  EXPECT_EQ(list_shm(arena_name(id_, 3)).size(), 1u);
  server_ = std::make_unique<testing::ServerProcess>(id_);
}

}  // namespace
}  // namespace shmtensor
