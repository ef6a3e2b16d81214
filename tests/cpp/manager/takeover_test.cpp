// A manager is killed, and another one takes over.
#include "support/takeover.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <vector>

#include "arena/segment.hpp"
#include "os/process.hpp"
#include "os/shm_object.hpp"
#include "session/session.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Client;
using testing::eventually;
using testing::kSmall;
using testing::Shared;
using testing::Takeover;
using testing::Turn;

TEST_F(Takeover, MemberRestoresSessionAndArenas) {
  Joined member = join();
  const Joined other = join();
  const auto memfd = make_arena(member, 1, Strategy::file_descriptor);
  const auto named = make_arena(member, 2, Strategy::file_system);
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_EQ(member.memory->header().manager_starts.load(), 2u);
  EXPECT_EQ(find(member, 1)->fd.identity(), memfd->identity());
  EXPECT_EQ(find(member, 2)->message.strategy, static_cast<std::uint32_t>(Strategy::file_system));
  const Statistics now = statistics(*member.client);
  EXPECT_EQ(now.processes, 2u) << "the other member has not reconnected yet, but is alive";
  EXPECT_EQ(now.arenas, 2u);
  EXPECT_EQ(now.blocks, 2u);
  EXPECT_EQ(memfd->header().orphaned.load(), 0u);
  EXPECT_GE(member.memory->header().deaths.load(), 1u)
      << "owners are notified to check their bookkeeping";
}

TEST_F(Takeover, NewProcessFindsTheSession) {
  Joined member = join();
  const auto memfd = make_arena(member, 1, Strategy::file_descriptor);
  replace_server();
  Client stranger(id_);
  const auto reply = stranger.hello(Join::existing);
  ASSERT_EQ(reply->message.kind, MessageKind::welcome) << "taken from a process that has it open";
  EXPECT_EQ(reply->fd.identity(), member.memory->file().identity());
  EXPECT_NE(reply->message.slot, member.slot);
  EXPECT_EQ(statistics(stranger).arenas, 1u);
  EXPECT_EQ(hello_again(member, nullptr), "");
  EXPECT_EQ(statistics(*member.client).processes, 2u);
}

// Otherwise it would start the session again although a member is alive.
TEST_F(Takeover, RefusesWithoutDescriptorsToScanProc) {
  Joined member = join();
  replace_server();
  {  // after this refusal it runs and has the descriptors that it needs
    Client lost(id_);
    const Message nonsense = message_for(MessageKind::hello, testing::fresh_session());
    ASSERT_EQ(refusal(lost.ask(nonsense)), "malformed request");
    ASSERT_FALSE(lost.receive());
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto limit_descriptors = [&](rlim_t count) {
    const rlimit limit{count, before.rlim_max};
    ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  };
  const std::string folder = "/proc/" + std::to_string(server_->pid()) + "/fd/";
  rlim_t free = 0;
  while (std::filesystem::is_symlink(folder + std::to_string(free))) ++free;
  limit_descriptors(free + 1);  // for the connection
  {
    Client stranger(id_);
    const std::string why = refusal(stranger.hello(Join::create));
    EXPECT_NE(why.find("EMFILE"), std::string::npos) << why;
  }
  limit_descriptors(before.rlim_cur);
  Client stranger(id_);
  const auto reply = stranger.hello(Join::create);
  ASSERT_EQ(reply->message.kind, MessageKind::welcome);
  EXPECT_EQ(reply->fd.identity(), member.memory->file().identity());
}

// Otherwise their names would be removed as unused.
TEST_F(Takeover, NamedArenasAreFoundWithFewDescriptors) {
  constexpr ArenaNumber kMemfds = 20;
  Joined member = join();
  std::vector<std::unique_ptr<Segment>> arenas;
  for (ArenaNumber number = 1; number <= kMemfds; ++number) {
    arenas.push_back(make_arena(member, number, Strategy::file_descriptor));
  }
  arenas.push_back(make_arena(member, kMemfds + 1, Strategy::file_system));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit scarce = before;
  scarce.rlim_cur = static_cast<rlim_t>(member.memory->file().duplicate().get()) + kMemfds / 2;
  server_->kill();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &scarce), 0);
  server_ = std::make_unique<testing::ServerProcess>(id_);  // inherits the open descriptors
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_LT(statistics(*member.client).arenas, arenas.size());
  EXPECT_EQ(find(member, kMemfds + 1)->message.kind, MessageKind::done);
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(eventually([&] { return statistics(*member.client).arenas == arenas.size(); }));
}

// It was accepted, and did not run before the manager was killed. A missing mapping of the memory
// does not prove yet that it is dead.
TEST_F(Takeover, JoiningProcessKeepsItsSlot) {
  Shared<Turn> turn;
  Shared<SlotNumber> slot;
  Child child([&] {
    Joined late{std::make_unique<Client>(id_), nullptr};
    std::optional<Reply> reply = late.client->hello(Join::create);
    late.slot = *slot = static_cast<SlotNumber>(reply->message.slot);
    late.incarnation = reply->message.incarnation;
    turn->set(1);
    ASSERT_TRUE(turn->reaches(2));
    late.memory = SessionMemory::open(id_, std::move(reply->fd));
    EXPECT_TRUE(late.memory->enter(late.slot, SlotStatus::joining));
    EXPECT_EQ(hello_again(late, nullptr), "");
    turn->set(::testing::Test::HasFailure() ? 4 : 3);
    ASSERT_TRUE(turn->reaches(5));
    late.memory.reset();
    late.client->close();
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  Joined member = join();
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  for (int look = 0; look < 3; ++look) EXPECT_EQ(statistics(*member.client).processes, 2u);
  turn->set(2);
  ASSERT_TRUE(turn->reaches(3));
  EXPECT_EQ(turn->get(), 3);
  EXPECT_EQ(member.memory->slot(*slot).status.load(), SlotStatus::active);
  turn->set(5);
  EXPECT_TRUE(eventually([&] { return statistics(*member.client).processes == 1; }))
      << "the process has joined, so that the session memory it does not map is unmapped";
}

// All other processes and the manager are killed before a new process receives its reply: the
// session starts again.
TEST_F(Takeover, SessionMemoryWithoutManagerIsNotJoined) {
  const SessionId id = testing::fresh_session();
  std::optional<Fd> listener = listen_on(object_name(id));
  Shared<Turn> turn;
  Child managers([&] {
    Fd line = accept_connection(*listener);
    Message welcome;
    static_cast<void>(receive_message(line, std::as_writable_bytes(std::span(&welcome, 1))));
    const Child next([&] {
      ::fcntl(listener->get(), F_SETFL, O_NONBLOCK);
      Server(id, std::move(*listener)).run();
    });
    Client other(id);
    EXPECT_EQ(other.hello(Join::create)->message.kind, MessageKind::welcome);
    {
      const auto memory = SessionMemory::create(id);
      memory->slot(0).status.store(SlotStatus::joining);
      welcome.kind = MessageKind::welcome;
      welcome.slot = 0;
      const int number = memory->file().get();
      send_message(line, std::as_bytes(std::span(&welcome, 1)), std::span(&number, 1));
    }
    line.reset();
    EXPECT_TRUE(turn->reaches(1));
  });
  listener.reset();
  Budget budget;
  const auto session = Session::connect(id, Session::Start::always, {}, budget);
  EXPECT_EQ(session->manager().statistics().processes, 2u);
  turn->set(1);
  EXPECT_EQ(managers.wait(), 0);
}

// It has not received a reply, because the manager that accepted it was killed before it answered.
TEST_F(Takeover, RepeatedHelloTakesOneSlot) {
  Joined member = join();
  Client unheard(id_);
  ASSERT_EQ(unheard.hello(Join::existing)->message.slot, 1u);
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_EQ(statistics(*member.client).processes, 2u);
  Client again(id_);
  EXPECT_EQ(again.hello(Join::existing)->message.slot, 1u);
  EXPECT_EQ(statistics(*member.client).processes, 2u);
}

TEST_F(Takeover, ProcessThatDiedWithoutManagerIsSwept) {
  Joined member = join();
  const auto arena = make_arena(member, 1, Strategy::file_descriptor);
  Shared<Turn> slot;
  std::unique_ptr<Segment> orphan;
  Child child([&] {
    const Joined doomed = join();
    const auto own = make_arena(doomed, 2, Strategy::file_system);
    arena->holders(plane_of(doomed.slot), 0).fetch_or(bit_of(doomed.slot));
    slot->set(doomed.slot);
    ::pause();
  });
  ASSERT_TRUE(slot->reaches(1));
  server_->kill();
  child.kill_and_reap();
  server_ = std::make_unique<testing::ServerProcess>(id_);
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  EXPECT_TRUE(eventually([&] { return statistics(*member.client).processes == 1; }));
  EXPECT_EQ(arena->holders(0, 0).load(), bit_of(member.slot));
  EXPECT_TRUE(eventually([&] { return list_shm(arena_name(id_, 2)).empty(); }));
  EXPECT_EQ(statistics(*member.client).blocks, 1u);
}

// Where /proc does not show which processes have an arena open, a member registers it with the new
// manager, which may have noticed deaths by then.
TEST_F(Takeover, LateArenaRegistrationIsRepaired) {
  constexpr SlotNumber kGone = 70;
  Joined member = join();
  replace_server();
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
  const auto arena = make_arena(member, 1, Strategy::file_descriptor);
  arena->record(1).word.store(BlockWord::live_at(0).bits());
  arena->ensure_plane(kGone);
  for (BlockNumber block = 0; block < 2; ++block) {
    arena->holders(plane_of(kGone), block).fetch_or(bit_of(kGone));
  }
  Message message = message_for(MessageKind::register_arena, id_);
  message.arena = 1;
  message.strategy = static_cast<std::uint32_t>(Strategy::file_descriptor);
  const Segment::File file = arena->file();
  EXPECT_EQ(refusal(member.client->ask(message, &*file)), "");
  EXPECT_EQ(arena->holders(plane_of(kGone), 0).load(), 0u);
  EXPECT_EQ(arena->holders(0, 0).load(), bit_of(member.slot));
  EXPECT_EQ(statistics(*member.client).blocks, 1u) << "what only the dead member held is free";
}

// The child writes its pid into the table itself, before or after the new manager reads it; it may
// never send a request to that manager.
TEST_F(Takeover, ChildBeingForkedIsIdentifiedByItsRecord) {
  for (const bool late : {false, true}) {
    Joined member = join();
    auto [ours, childs] = socket_pair();
    const auto reply = member.client->ask(MessageKind::fork, &ours);
    const auto slot = static_cast<SlotNumber>(reply->message.slot);
    server_->kill();  // before it can notice that no process has the child's end
    Shared<Turn> turn;
    Child child([&] {
      mark_forked_child();
      ASSERT_TRUE(turn->reaches(1));
      const ProcessIdentity self = this_process();
      SlotRecord& record = member.memory->slot(slot);
      record.start_time.store(self.start_time);
      record.pid.store(self.pid);
      EXPECT_TRUE(member.memory->enter(slot, SlotStatus::forking));
      turn->set(2);
      ::pause();
    });
    if (!late) turn->set(1);
    ASSERT_TRUE(late || turn->reaches(2));
    server_ = std::make_unique<testing::ServerProcess>(id_);
    EXPECT_EQ(hello_again(member, &member.memory->file()), "");
    turn->set(late ? 1 : 2);
    const SlotRecord& record = member.memory->slot(slot);
    EXPECT_TRUE(eventually([&] {
      static_cast<void>(statistics(*member.client));  // it checks all members after each request
      return record.status.load() == SlotStatus::active;
    }));
    child.kill_and_reap();
    EXPECT_TRUE(eventually([&] { return record.status.load() == SlotStatus::unused; }))
        << "its death was not noticed";
  }
}

// Its address is free in every other network namespace.
TEST_F(Takeover, LiveManagerIsNotReplaced) {
  const Joined member = join();
  const std::string place = object_name(testing::fresh_session());
  auto listener = listen_on(place);
  ::fcntl(listener->get(), F_SETFL, O_NONBLOCK);
  Child second([&] { Server(id_, std::move(*listener)).run(); });
  const std::string why = "the session is in another network namespace";
  Message message = message_for(MessageKind::hello, id_);
  message.join = Join::create;
  const auto ask = [&](const Fd* file) {
    return refusal(Client(id_, *connect_to(place, kTimeout)).ask(message, file));
  };
  EXPECT_TRUE(ask(nullptr).starts_with(why)) << "it finds the memory in /proc";
  message.slot = member.slot;
  message.incarnation = member.incarnation;
  EXPECT_TRUE(ask(&member.memory->file()).starts_with(why));
  EXPECT_EQ(member.memory->header().manager_starts.load(), 1u);
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

TEST_F(Takeover, MemoryOfOtherSessionIsRejected) {
  Joined member = join();
  const auto other = SessionMemory::create(testing::fresh_session());
  replace_server();
  EXPECT_NE(hello_again(member, &other->file()), "");
  EXPECT_EQ(hello_again(member, &member.memory->file()), "");
}

TEST_F(Takeover, SucceedsThreeTimesInARow) {
  Joined member = join();
  const auto arena = make_arena(member, 1, Strategy::file_descriptor);
  for (std::uint32_t starts = 2; starts < 5; ++starts) {
    replace_server();
    EXPECT_EQ(hello_again(member, &member.memory->file()), "");
    EXPECT_EQ(member.memory->header().manager_starts.load(), starts);
    EXPECT_EQ(statistics(*member.client).blocks, 1u);
  }
}

}  // namespace
}  // namespace shmtensor
