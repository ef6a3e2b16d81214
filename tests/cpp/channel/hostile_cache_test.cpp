// Another process writes anything into the memory of a cache: each operation ends, with a result or
// an exception, and neither it nor the repair uses memory outside of the cache.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "queue/cache_repair.hpp"
#include "queue/owner_lock.hpp"
#include "support/cache_user.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::CacheUser;
using testing::Child;
using testing::eventually;
using testing::Shared;
using testing::Turn;

constexpr std::uint64_t kFull = CacheHeader::kFirstPlaces;  // items that may fill the first table

class HostileCache : public testing::CacheTest {
 protected:
  /// Has items in three tables.
  static void fill(CacheUser& user, std::uint64_t items = 5 * kFull) {
    for (std::uint64_t i = 0; i < items; ++i) ASSERT_EQ(user.add(i, i % 4 == 0), Attempt::done);
  }
  static MessageEntry& record_of_table(CacheUser& user, std::uint32_t number) {
    return user.header().records.at(number).item;
  }
  /// Each operation. The child that runs it has a deadline.
  static void use(CacheUser& user, std::uint64_t key) {
    const auto one = [](auto&& body) {
      try {
        static_cast<void>(body());
      } catch (const Error&) {
        // the expected result
      }
    };
    one([&] { return user.has(key); });
    one([&] { return user.add(key, key % 2 == 0); });
    one([&] { return user.remove(key); });
    one([&] { return user.evict(Evict::own); });
    one([&] { return user.evict(Evict::unheld); });
    one([&] {
      CacheTurn turn(user.cache(), CacheUser::key_of(key));
      const Attempt result = user.begin(turn);
      if (result == Attempt::empty) static_cast<void>(turn.is_recursive());
      if (turn.record()) CacheTurn::end(user.cache(), *turn.record());
      return result;
    });
    static_cast<void>(user.cache().numbers());
    one([&] {
      Cache again(user.session(), user.block());
      Incoming item;
      ChannelCall call(user.session());
      return again.try_find(CacheUser::key_of(key), item, call);
    });
  }
};

TEST_F(HostileCache, IsRefusedIfItIsNone) {
  user_->make();
  EXPECT_NO_THROW(Cache(user_->session(), user_->block()));
  user_->header().magic.store(kCacheMagic + 1);
  EXPECT_THROW(Cache(user_->session(), user_->block()), SessionError);
  user_->header().magic.store(kCacheMagic);
  BlockRecord& record = user_->block().arena->segment().record(user_->block().number);
  const std::uint64_t size = record.size.load();
  record.size.store(sizeof(CacheHeader) - 8);
  EXPECT_THROW(Cache(user_->session(), user_->block()), SessionError);
  record.size.store(size);
  record.offset.fetch_add(4);
  EXPECT_THROW(Cache(user_->session(), user_->block()), SessionError);
  record.offset.fetch_sub(4);
  EXPECT_NO_THROW(Cache(user_->session(), user_->block()));
}

TEST_F(HostileCache, TableInAWrongBlockIsRefused) {
  user_->make();
  fill(*user_);
  ASSERT_GE(user_->header().tables.load(), 3u);
  // A process that opens the tables now.
  const auto refuses = [&](const char* what) {
    Cache other(user_->session(), user_->block());
    ChannelCall call(user_->session());
    Incoming item;
    try {
      static_cast<void>(other.try_find(CacheUser::key_of(1), item, call));
      ADD_FAILURE() << "a damaged table is opened";
    } catch (const SessionError& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  TicketRecord& ticket = record_of_table(*user_, 1).ticket;
  const std::uint64_t where = ticket.block.load();
  BlockRecord& record =
      user_->block().arena->segment().record(static_cast<BlockNumber>(ticket.block.load()));
  const std::uint64_t size = record.size.load();
  record.size.store(cache_table_bytes(1) - 8);
  refuses("the block of a table has");
  record.size.store(~std::uint64_t{0});
  refuses("block");
  record.size.store(size);
  record.offset.fetch_add(4);
  refuses("the block of a table has");
  record.offset.fetch_sub(4);
  ticket.block.store(where | 0xffffffff);
  refuses("does not exist");
  ticket.block.store(where);
  const std::uint64_t name = ticket.name.exchange(0);
  refuses("has no block");
  ticket.name.store(name);
  EXPECT_TRUE(user_->has(1));
}

TEST_F(HostileCache, NumbersOutOfRangeDoNoHarm) {
  user_->make();
  fill(*user_);
  CacheHeader& header = user_->header();
  const std::uint32_t tables = header.tables.load();
  for (const std::uint32_t count : {0u, ~0u, CacheHeader::kTables + 1}) {
    header.tables.store(count);
    try {
      use(*user_, 7);
    } catch (const Error&) {
      // there is no such table
    }
    header.tables.store(tables);
  }
  for (const std::uint64_t hand :
       {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1000}}) {
    header.hand.store(hand);
    EXPECT_EQ(user_->evict(Evict::unheld), Attempt::done);
    EXPECT_LT(header.hand.load(), CacheHeader::kFirstPlaces << tables);
  }
  CacheTurn::end(user_->cache(), ~0u);
  for (CacheBuild& build : header.builds) {
    build.first.store(CacheUser::key_of(1 << 20).first);
    build.second.store(CacheUser::key_of(1 << 20).second);
    build.thread.store(~0u);
    build.owner.store(~0u);
  }
  CacheTurn turn(user_->cache(), CacheUser::key_of(1 << 20));
  EXPECT_EQ(user_->begin(turn), Attempt::empty);
  EXPECT_FALSE(turn.is_recursive());
  CacheTurn none(user_->cache(), CacheUser::key_of((1 << 20) + 1));
  EXPECT_EQ(user_->begin(none), Attempt::done);
  EXPECT_FALSE(none.record()) << "no record is free";
}

// A process was killed while it removed the item, and the manager could not map its table.
TEST_F(HostileCache, PlaceWithoutAnItemIsNotEvicted) {
  user_->make();
  ASSERT_EQ(user_->add(1, false), Attempt::done);
  for (CachePlace& place : user_->header().first_places) {
    if (CachePlace::has_item(place.version.load())) place.version.fetch_add(1);
  }
  EXPECT_EQ(user_->evict(Evict::unheld), Attempt::full);
  EXPECT_FALSE(user_->has(1));
}

TEST_F(HostileCache, ItemWithoutItsTicketIsBuiltAgain) {
  user_->make();
  ASSERT_EQ(user_->add(1, true), Attempt::done);
  for (CachePlace& place : user_->header().first_places) {
    const auto named = place.item.ticket.read();
    if (named) user_->session().cancel(*named, Strategy::file_descriptor);
  }
  EXPECT_FALSE(user_->has(1));
  CacheTurn turn(user_->cache(), CacheUser::key_of(1));
  EXPECT_EQ(user_->begin(turn), Attempt::done);
  EXPECT_FALSE(turn.is_there());
  EXPECT_EQ(user_->cache().numbers().items, 0u);
}

TEST_F(HostileCache, RandomWordsAreNotFatal) {
  testing::in_child([&] {
    CacheUser user(id_);
    user.make(500 * kFull);
    fill(user, 2 * kFull);
    constexpr int kRounds = 2000;
    std::mt19937_64 random(5);
    const std::span<std::byte> bytes = user.bytes();
    const std::vector<std::byte> before(bytes.begin(), bytes.end());
    for (int round = 0; round < kRounds; ++round) {
      for (std::uint64_t i = random() % 6; i < 6; ++i) {
        // The numbers, the records of tables, or anything.
        const std::uint64_t part = random() % 3;
        user.damage(part == 0 ? bytes.first(offsetof(CacheHeader, label))
                    : part == 1
                        ? bytes.subspan(offsetof(CacheHeader, records), sizeof(CachePlace) * 4)
                        : bytes,
                    random);
      }
      // A lock of no process is waited for, which takes the whole time.
      if (random() % 8 != 0) user.header().changes.lock.store(0);
      use(user, random() % (3 * kFull));
      std::memcpy(bytes.data(), before.data(), bytes.size());
    }
  });
  EXPECT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }));
}

// The manager repairs it after a death, and drains it.
TEST_F(HostileCache, IsRepairedWithoutHarm) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 30; ++round) {
    const int end = testing::exit_of([&] {
      CacheUser user(id_);
      user.make();
      fill(user, 2 * kFull);
      CacheHeader& header = user.header();
      const std::span<std::byte> bytes = user.bytes();
      for (int i = 0; i < 40; ++i) user.damage(round % 2 == 0 ? bytes.first(512) : bytes, random);
      const std::uint64_t places[] = {0,       1, kFull - 1, kFull, 3 * kFull, ~std::uint64_t{0},
                                      random()};
      header.change.store(CacheChange(places[random() % 7], random() % 2 == 0, random()).bits());
      if (random() % 2 == 0) header.tables.store(static_cast<std::uint32_t>(random() % 40));
      header.magic.store(kCacheMagic);
      header.changes.lock.store(user.session().slot() + 1u);
      ::kill(::getpid(), SIGKILL);
    });
    EXPECT_EQ(end, -SIGKILL);
    random.discard(100);
  }
  EXPECT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }))
      << "the manager lives";
}

// Regression: a process that had not opened the table tried again and again.
TEST_F(HostileCache, TableThatIsLostWithItsArenaIsReported) {
  user_->make();
  ASSERT_EQ(user_->add(1, false), Attempt::done);
  const Shared<Turn> ready;
  Child maker([&, passed = user_->pass()] {
    CacheUser user(id_);
    user.open(passed);
    fill(user, 3 * kFull);
    ready->set(1);
    ::pause();
  });
  ASSERT_TRUE(ready->reaches(1));
  maker.kill_and_reap();
  ASSERT_TRUE(eventually([&] { return user_->session().manager().statistics().processes == 1; }));
  restart_server(nullptr);
  EXPECT_THROW(static_cast<void>(user_->has(1)), StaleHandle);
  EXPECT_THROW(static_cast<void>(user_->add(2, false)), StaleHandle);
  EXPECT_EQ(user_->header().changes.lock.load(), 0u);
}

/// The repair of a cache whose process, in slot 1, was killed with its lock.
class DamagedCacheRepair : public testing::QueueWorld {
 protected:
  static constexpr std::uint64_t kUnused = 0x7777'7777'7777'7777;

  DamagedCacheRepair() {
    Cache::create({arena_.get(), cache_}, {});
    share(*view_, cache_);
  }
  [[nodiscard]] CacheHeader& header() const {
    return *cache_in(arena_->bytes(cache_, Access::read_write));
  }
  /// Kills it after it has begun the change of a place.
  void die(std::uint64_t place, bool removes) {
    header().change.store(CacheChange(place, removes, header().changes.count.load()).bits());
    ASSERT_TRUE(OwnerLock(header().changes.lock).try_lock(kDead));
    arena_->segment().holders(0, cache_).fetch_or(bit_of(kDead));
    sweep(kDead);
    EXPECT_EQ(header().changes.lock.load(), 0u);
  }

  testing::Peer doomed_{*memory_, kDead};
  const std::unique_ptr<Arena> view_ = doomed_.open_arena(arena_->segment());
  const BlockNumber cache_ = *arena_->allocate(Cache::kBytes);
};

TEST_F(DamagedCacheRepair, UnlocksIt) {
  const auto count = [&] { return header().changes.count.load(); };
  die(0, false);
  EXPECT_EQ(header().change.load(), 0u) << "an empty place was not changed";
  EXPECT_EQ(count(), 0u);
  die(5, true);
  EXPECT_EQ(count(), 1u) << "the item of a place was removed";
  for (const std::uint64_t place : {kFull, 3 * kFull, kFull << 20, (std::uint64_t{1} << 40) - 2}) {
    die(place, true);
    EXPECT_EQ(count(), 1u) << "there is no table for it: " << place;
  }
  // The blocks of the next tables are too small, or unaligned, or no blocks.
  const BlockNumber table = *arena_->allocate(cache_table_bytes(1));
  const std::span<std::byte> bytes = arena_->bytes(table, Access::read_write);
  std::memset(bytes.data(), 0x77, bytes.size());
  BlockRecord& record = arena_->segment().record(table);
  MessageEntry& entry = header().records.at(1).item;
  header().tables.store(2);
  entry.ticket.write({.arena = arena_->segment().number(),
                      .block = table,
                      .generation = arena_->generation(table),
                      .ticket = {.sender = 0}});
  const std::uint64_t size = record.size.load();
  record.size.store(cache_table_bytes(1) - 8);
  die(kFull, true);
  record.size.store(~std::uint64_t{0});
  die(kFull, true);
  record.size.store(size);
  record.offset.fetch_add(4);
  die(kFull, true);
  record.offset.fetch_sub(4);
  entry.ticket.block.store(~std::uint64_t{0});
  die(kFull, true);
  entry.ticket.name.store(0);
  die(kFull, true);
  header().tables.store(~0u);
  die(kFull, true);
  EXPECT_EQ(count(), 1u);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0x77}; }));
}

TEST_F(DamagedCacheRepair, LeavesBuildsOfNoProcess) {
  auto& builds = header().builds;
  builds[0].owner.store(~0u);
  builds[1].owner.store(0x10000 + kDead + 1);
  builds[2].owner.store(kDead + 1);
  builds[3].owner.store(1);
  die(0, false);
  EXPECT_EQ(builds[0].owner.load(), ~0u);
  EXPECT_EQ(builds[1].owner.load(), 0x10000u + kDead + 1);
  EXPECT_EQ(builds[2].owner.load(), 0u);
  EXPECT_EQ(builds[3].owner.load(), 1u);
}

TEST_F(DamagedCacheRepair, LeavesMemoryThatIsNoCache) {
  header().changes.lock.store(kDead + 1u);
  header().magic.store(1);
  const std::span<std::byte> bytes = arena_->bytes(cache_, Access::read_write);
  const std::vector<std::byte> before(bytes.begin(), bytes.end());
  sweep(kDead);
  EXPECT_TRUE(std::ranges::equal(bytes, before));
}

}  // namespace
}  // namespace shmtensor
