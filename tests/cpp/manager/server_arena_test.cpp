// Arenas that members register and others request.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "arena/segment.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/shm_object.hpp"
#include "support/server.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Client;
using testing::kSmall;

class ServerArenas : public testing::ServerTest {
 protected:
  ~ServerArenas() override {
    for (const std::string& name : list_shm(object_name(id_))) unlink_shm(name);
  }

  [[nodiscard]] std::unique_ptr<Segment> make(Strategy strategy, ArenaNumber number = 1) const {
    return Segment::create(id_, number, member_.slot, member_.incarnation, strategy, kSmall);
  }
  std::optional<Reply> announce(const Segment& segment) {
    Message message = message_for(MessageKind::register_arena, id_);
    message.arena = segment.number();
    if (segment.strategy() == Strategy::file_system) return member_.client->ask(message);
    const Segment::File file = segment.file();
    return member_.client->ask(message, &*file);
  }
  std::optional<Reply> announce(ArenaNumber number, const Fd& file) {
    Message message = message_for(MessageKind::register_arena, id_);
    message.arena = number;
    return member_.client->ask(message, &file);
  }
  std::optional<Reply> find(ArenaNumber number) {
    Message message = message_for(MessageKind::find_arena, id_);
    message.arena = number;
    return other_.client->ask(message);
  }

  const Joined member_ = join();
  const Joined other_ = join();
};

TEST_F(ServerArenas, OfOneProcessAreLimited) {
  rlimit limit{};
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  const auto segment = make(Strategy::file_descriptor);
  std::optional<Reply> reply;
  for (ArenaNumber number = 1; number <= 4097; ++number) {
    segment->header().number = number;  // the manager takes one file for many arenas
    const Segment::File file = segment->file();
    reply = announce(number, *file);
    if (reply->message.kind != MessageKind::done) break;
  }
  EXPECT_EQ(refusal(reply),
            "this process has 4096 arenas, which is the limit; release tensors, then call gc()");
  EXPECT_EQ(statistics(*other_.client).arenas, 4096u);
}

TEST_F(ServerArenas, MemfdIsSentOnRequest) {
  const auto segment = make(Strategy::file_descriptor);
  EXPECT_EQ(find(1)->message.kind, MessageKind::unknown);
  EXPECT_EQ(announce(*segment)->message.kind, MessageKind::done);
  EXPECT_EQ(announce(*segment)->message.kind, MessageKind::done) << "again, as with a new manager";
  auto reply = find(1);
  EXPECT_EQ(reply->message.kind, MessageKind::done);
  EXPECT_EQ(reply->message.strategy, static_cast<std::uint32_t>(Strategy::file_descriptor));
  EXPECT_EQ(reply->fd.identity(), segment->identity());
  EXPECT_NO_THROW(static_cast<void>(Segment::open(id_, 1, std::move(reply->fd))));
  EXPECT_EQ(find(2)->message.kind, MessageKind::unknown);
  EXPECT_EQ(statistics(*other_.client).arenas, 1u);
}

TEST_F(ServerArenas, NamedObjectIsOpenedByNameInEveryProcess) {
  const auto segment = make(Strategy::file_system);
  EXPECT_EQ(announce(*segment)->message.kind, MessageKind::done);
  const auto reply = find(1);
  EXPECT_EQ(reply->message.kind, MessageKind::done);
  EXPECT_EQ(reply->message.strategy, static_cast<std::uint32_t>(Strategy::file_system));
  EXPECT_FALSE(reply->fd);
}

TEST_F(ServerArenas, AreListedOneByOneForObserversToo) {
  const auto first = make(Strategy::file_descriptor, 3);
  const auto second = make(Strategy::file_system, 5);
  announce(*first);
  announce(*second);
  Client looker(id_);
  Message hello = message_for(MessageKind::hello, id_);
  hello.join = Join::observe;
  ASSERT_EQ(looker.ask(hello)->message.kind, MessageKind::welcome);
  Message next = message_for(MessageKind::next_arena, id_);
  std::vector<ArenaNumber> seen;
  for (auto reply = looker.ask(next); reply->message.kind == MessageKind::done;
       reply = looker.ask(next)) {
    EXPECT_EQ(reply->message.slot, member_.slot);
    EXPECT_EQ(reply->message.statistics.arenas, 0u) << "of this one only";
    EXPECT_GT(reply->message.statistics.bytes_reserved, 0u);
    next.arena = reply->message.arena;
    seen.push_back(next.arena);
  }
  EXPECT_EQ(seen, (std::vector<ArenaNumber>{3, 5}));
}

TEST_F(ServerArenas, RetiredArenaIsClosedWhenNoBlockLives) {
  const auto segment = make(Strategy::file_system);
  ASSERT_EQ(announce(*segment)->message.kind, MessageKind::done);
  segment->record(5).size.store(100);
  segment->record(5).word.store(BlockWord::live_at(0).bits());
  Message message = message_for(MessageKind::retire_arena, id_);
  message.arena = 1;
  EXPECT_NE(refusal(other_.client->ask(message)).find("only the owner"), std::string::npos);
  EXPECT_EQ(segment->header().orphaned.load(), 0u);
  EXPECT_EQ(member_.client->ask(message)->message.kind, MessageKind::done);
  EXPECT_EQ(member_.client->ask(message)->message.kind, MessageKind::done)
      << "again, after a reconnect";
  EXPECT_EQ(segment->header().orphaned.load(), 1u);
  EXPECT_EQ(find(1)->message.kind, MessageKind::done) << "as an orphan arena with a block";
  segment->record(5).word.store(BlockWord::free_at(1).bits());
  segment->freed().mark(5);
  EXPECT_TRUE(testing::eventually([&] { return statistics(*other_.client).arenas == 0; }));
  EXPECT_EQ(find(1)->message.kind, MessageKind::unknown);
  EXPECT_TRUE(list_shm(arena_name(id_, 1)).empty());
  message.arena = 2;
  EXPECT_EQ(member_.client->ask(message)->message.kind, MessageKind::done)
      << "unknown to a new manager";
}

TEST_F(ServerArenas, RejectsInvalidArenasWithoutSideEffects) {
  const auto segment = make(Strategy::file_descriptor);
  const Segment::File file = segment->file();
  EXPECT_NE(refusal(announce(2, *file)).find("the session id or arena number does not match"),
            std::string::npos);
  EXPECT_NE(refusal(announce(3, create_memfd("empty"))).find("too short"), std::string::npos);
  Fd unsealed = create_memfd("unsealed");
  set_file_size(unsealed, kSmall.data());
  EXPECT_NE(refusal(announce(3, unsealed)).find("not created by this version"), std::string::npos);
  EXPECT_NE(refusal(announce(3, socket_pair().first)).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(refusal(member_.client->ask(MessageKind::register_arena)).find("ENOENT"),
            std::string::npos);
  EXPECT_EQ(statistics(*other_.client).arenas, 0u);
  EXPECT_EQ(announce(*segment)->message.kind, MessageKind::done);
}

TEST_F(ServerArenas, StatisticsCountLiveBlocksAndPages) {
  const auto segment = make(Strategy::file_descriptor);
  ASSERT_EQ(announce(*segment)->message.kind, MessageKind::done);
  for (BlockNumber block = 0; block < 3; ++block) {
    segment->record(block).size.store(100);
    segment->record(block).word.store(BlockWord::live_at(0).bits());
  }
  segment->record(1).word.store(BlockWord::free_at(1).bits());
  ASSERT_TRUE(reserve_pages(*segment->file(), kSmall.data(), 4 * kMiB));
  const Statistics statistics = ServerTest::statistics(*other_.client);
  EXPECT_EQ(statistics.processes, 2u);
  EXPECT_EQ(statistics.arenas, 1u);
  EXPECT_EQ(statistics.blocks, 2u);
  EXPECT_EQ(statistics.bytes_live, 200u);
  EXPECT_GE(statistics.bytes_reserved, 4 * kMiB);
  EXPECT_LT(statistics.bytes_reserved, 6 * kMiB);
}

}  // namespace
}  // namespace shmtensor
