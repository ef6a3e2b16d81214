// The end of a manager, and what it removes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "arena/segment.hpp"
#include "manager/session_statistics.hpp"
#include "os/clock.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Shared;
using testing::Turn;

class ServerEnds : public testing::ServerTest {
 protected:
  /// Ends like a member that sent `tickets` messages and died; `parent` may read them.
  void die_with_tickets(BlockNumber tickets, std::int32_t parent) {
    // The manager may notice the end before this process does.
    const Shared<std::uint64_t> left;
    Child member([&] {
      testing::Client client(id_);
      client.parent = parent;
      const auto reply = client.hello(Join::create);
      const auto memory = SessionMemory::open(id_, reply->fd.duplicate());
      TransitWriter writer(*memory, static_cast<SlotNumber>(reply->message.slot));
      for (BlockNumber block = 0; block < tickets; ++block) {
        static_cast<void>(writer.issue(1, block, 0));
      }
      *left = coarse_milliseconds();
    });
    EXPECT_EQ(member.wait(), 0);
    since_ = *left;
  }
  [[nodiscard]] bool listens() const { return connect_to(object_name(id_), kTimeout).has_value(); }
  [[nodiscard]] std::uint64_t elapsed() const { return coarse_milliseconds() - since_; }

  std::uint64_t since_ = coarse_milliseconds();
};

constexpr auto kAlmostLinger = static_cast<std::uint64_t>(kIdleTimeout.count()) - 100;

TEST_F(ServerEnds, AfterIdleTimeoutWithoutMembers) {
  EXPECT_EQ(server_->wait(), 0);
  EXPECT_GE(elapsed(), kAlmostLinger);
  EXPECT_FALSE(listens());
  server_.reset();
}

TEST_F(ServerEnds, AfterIdleTimeoutOfLastMember) {
  die_with_tickets(0, 0);
  EXPECT_EQ(server_->wait(), 0);
  EXPECT_GE(elapsed(), kAlmostLinger);
  server_.reset();
}

TEST_F(ServerEnds, NotWhileAMemberIsConnected) {
  const Joined member = join();
  std::this_thread::sleep_for(kIdleTimeout + std::chrono::milliseconds(500));
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

TEST_F(ServerEnds, NotWhileParentMayReadMessagesOfItsChild) {
  Shared<Turn> turn;
  Child parent([&] {
    die_with_tickets(2, ::getpid());
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  std::this_thread::sleep_for(kIdleTimeout + std::chrono::milliseconds(500));
  EXPECT_TRUE(listens());
  parent.kill_and_reap();
  EXPECT_EQ(server_->wait(), 0) << "no process is left that could read it";
  server_.reset();
}

TEST_F(ServerEnds, EvenIfParentWithoutMessagesLives) {
  die_with_tickets(0, ::getpid());
  EXPECT_EQ(server_->wait(), 0);
  server_.reset();
}

TEST_F(ServerEnds, DespiteMessagesWithoutReader) {
  die_with_tickets(2, 0);
  EXPECT_EQ(server_->wait(), 0);
  server_.reset();
}

TEST_F(ServerEnds, NotWhileANameIsKept) {
  std::unique_ptr<SessionMemory> memory;
  std::uint32_t dropped = 0;
  {
    const Joined member = join();
    memory = SessionMemory::open(id_, member.memory->file().duplicate());
    TransitWriter writer(*member.memory, member.slot);
    const auto publish = [&](std::string_view name, std::uint64_t keep) {
      NameTable& table = member.memory->names();
      const std::uint32_t number = *table.find(name, member.memory->header().key, true);
      table.records[number].keep[1].store(keep);
      table.write_handle(number, 1, NameHandle{std::byte{1}});
      member.memory->transit(member.slot)
          .keep(writer.issue(1, number, 0, TicketOf::name), NameTable::mark_of(number, 1));
      table.change(number, {}, NameState{}.next(NameStage::replacing, 1, member.slot, 1));
      return number;
    };
    dropped = publish("until dropped", NameRecord::kUntilDropped);
    publish("a while", static_cast<std::uint64_t>(kIdleTimeout.count()) + 300);
    publish("not kept", 0);
    publish("not even by a time", NameRecord::kCannotBeKept);
    static_cast<void>(writer.issue(1, 5, 0));
    member.memory->header().keeps_names.store(1);
    EXPECT_EQ(memory->header().empty_since.load(), 0u);
  }
  const auto left = [&] {  // in the table or in the memory
    std::vector<std::string> names;
    NameTable& table = memory->names();
    for (std::uint32_t number = 0; number < NameTable::kNames; ++number) {
      const NameState state{table.records[number].state.load()};
      if (state.is_published() || is_handle(table.read_handle(number, 1)) ||
          memory->transit(0).has_live(1, number, 0)) {
        names.push_back(table.name(number));
      }
    }
    std::ranges::sort(names);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_TRUE(eventually([&] { return left() == Names{"a while", "until dropped"}; }));
  EXPECT_EQ(count_in_flight(*memory), 0u) << "no reader is left";
  EXPECT_TRUE(memory->transit(0).has_live(1, dropped, 0));
  EXPECT_NE(memory->header().empty_since.load(), 0u);
  EXPECT_TRUE(eventually([&] { return left() == Names{"until dropped"}; }));
  EXPECT_TRUE(listens());
  {
    const Joined later = join();
    memory->names().records[dropped].state.store(0);
  }
  EXPECT_EQ(server_->wait(), 0);
  server_.reset();
}

// A process may still have the session's memory, such as a forked child that does not use it. The
// next manager finds the memory there, and must not consider this manager alive.
TEST_F(ServerEnds, AndRecordsItInSessionMemory) {
  std::unique_ptr<SessionMemory> memory;
  {
    Child member([&] {
      const Joined joined = join();
      ::pause();
    });
    EXPECT_TRUE(eventually([&] {
      auto reply = testing::Client(id_).hello(Join::observe);
      if (reply->message.kind != MessageKind::welcome) return false;
      memory = SessionMemory::open(id_, std::move(reply->fd));
      return true;
    }));
    EXPECT_TRUE(memory->has_manager());
  }
  EXPECT_EQ(server_->wait(), 0);
  EXPECT_FALSE(memory->has_manager());
  server_ = std::make_unique<testing::ServerProcess>(id_);
  EXPECT_EQ(testing::Client(id_).hello(Join::create)->message.kind, MessageKind::welcome);
  EXPECT_EQ(memory->header().manager_starts.load(), 2u);
}

TEST_F(ServerEnds, AndRemovesTheSessionsNames) {
  die_with_tickets(0, 0);
  // Its creator was killed before it registered it.
  static_cast<void>(create_shm(arena_name(id_, 3)));
  const SessionId neighbour = testing::fresh_session();
  // Open, as its manager has it; otherwise any session that starts on this machine may remove its
  // names.
  const std::optional<Fd> place = bind_to(object_name(neighbour));
  ASSERT_TRUE(place);
  const std::string other = arena_name(neighbour, 3);
  static_cast<void>(create_shm(other));
  EXPECT_EQ(server_->wait(), 0);
  EXPECT_TRUE(list_shm(object_name(id_)).empty());
  EXPECT_EQ(list_shm(other).size(), 1u);
  EXPECT_TRUE(unlink_shm(other));
  server_.reset();
}

// The previous manager was killed, and the process that started this one, too, before its first
// request. Other processes may be alive without needing a manager for now.
TEST_F(ServerEnds, WithoutMembersAndKeepsNames) {
  const std::string name = arena_name(id_, 3);
  // Open, because without it any manager that starts on this machine may remove the name.
  const Fd file = create_shm(name);
  EXPECT_EQ(server_->wait(), 0);
  EXPECT_TRUE(unlink_shm(name));
  server_.reset();
}

}  // namespace
}  // namespace shmtensor
