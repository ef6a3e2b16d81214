// A cache in one process; hostile_cache_test.cpp has damaged ones.
#include "channel/cache.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "arena/address_map.hpp"
#include "support/cache_user.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::CacheUser;
using testing::in_child;
using testing::Passed;

class CacheInOneProcess : public testing::CacheTest {};

// Regression: the thread waited for what a fork has locked, with a mutex that the child inherited.
TEST_F(CacheInOneProcess, IsUsedByAChildThatWasForkedWhileAThreadOpensATable) {
  user_->make();
  const Passed passed = user_->pass();
  in_child([&] {
    CacheUser other(id_);
    other.open(passed);
    for (std::uint64_t key = 0; key <= CacheHeader::kFirstPlaces; ++key) {
      ASSERT_EQ(other.add(key, false), Attempt::done);
    }
  });
  const std::uint32_t tables = user_->header().tables.load();
  ASSERT_GE(tables, 2u);
  std::vector<PinnedArena> arenas;
  for (std::uint32_t number = 1; number < tables; ++number) {
    const ArenaNumber arena = user_->header().records.at(number).item.ticket.read()->arena;
    arenas.push_back(user_->session().attach(arena, Strategy::file_descriptor));
  }
  AddressMap::get().lock_for_fork();
  std::thread opener([&] { EXPECT_TRUE(user_->has(0)); });
  std::this_thread::sleep_for(100ms);
  in_child([&] {
    AddressMap::get().unlock_after_fork();
    EXPECT_TRUE(user_->has(0));
  });
  AddressMap::get().unlock_after_fork();
  opener.join();
}

}  // namespace
}  // namespace shmtensor
