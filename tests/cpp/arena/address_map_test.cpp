#include "arena/address_map.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Peer;
using testing::World;

/// An object over a block: what the layer above knows of it.
struct Object {
  Object(Arena& of, std::uint64_t size) : Object(of, *of.allocate(size), Access::read_write) {}
  Object(Arena& of, BlockNumber number, Access access)
      : arena(of), block(number), bytes(of.bytes(number, access)) {
    testing::set_object(arena, block, this, access);
  }
  void release() {
    testing::set_object(arena, block, nullptr);
    arena.release(block);
  }

  Arena& arena;
  BlockNumber block;
  std::span<std::byte> bytes;
};

const Object* find(const std::byte* address) {
  return static_cast<const Object*>(AddressMap::get().find(address, [address](void* object) {
    const auto bytes = static_cast<const Object*>(object)->bytes;
    return address >= bytes.data() && address < bytes.data() + bytes.size();
  }));
}

class AddressMapTest : public ::testing::Test {
 protected:
  World world_;
  Arena& arena_ = *world_.arena;
};

TEST_F(AddressMapTest, FindsObjectsByAnyOfTheirAddresses) {
  const Object small(arena_, 64);
  const Object large(arena_, 3 * kMiB);
  const Object next(arena_, 64);
  for (const Object* object : {&small, &large, &next}) {
    EXPECT_EQ(find(object->bytes.data()), object);
    EXPECT_EQ(find(&object->bytes.back()), object);
  }
  EXPECT_EQ(find(large.bytes.data() + kMiB + 7), &large);
}

TEST_F(AddressMapTest, FindsNothingElsewhere) {
  const Object object(arena_, 100);
  const int local = 0;
  EXPECT_EQ(find(reinterpret_cast<const std::byte*>(&local)), nullptr);
  EXPECT_EQ(find(nullptr), nullptr);
  EXPECT_EQ(find(object.bytes.data() + 100), nullptr) << "not its own";
  const BlockNumber without = *arena_.allocate(64);
  EXPECT_EQ(find(arena_.bytes(without, Access::read_write).data()), nullptr) << "has no object";
}

TEST_F(AddressMapTest, FollowsBlocksThatAreFreedAndAllocatedAgain) {
  std::vector<std::unique_ptr<Object>> few;
  for (int i = 0; i < 5000; ++i) few.push_back(std::make_unique<Object>(arena_, 64));
  const std::byte* const inside = few[2500]->bytes.data();
  EXPECT_EQ(find(inside), few[2500].get());
  for (auto& object : few) object->release();
  EXPECT_EQ(find(inside), nullptr);
  const Object large(arena_, 64 * 5000);  // over the places of many that were there
  EXPECT_EQ(find(&large.bytes.back()), &large);
  EXPECT_EQ(find(large.bytes.data()), &large);
}

TEST_F(AddressMapTest, KnowsEachMappingOfABlock) {
  const Object writable(arena_, 100);
  const Object readable(arena_, writable.block, Access::read_only);
  EXPECT_NE(readable.bytes.data(), writable.bytes.data());
  EXPECT_EQ(find(writable.bytes.data() + 5), &writable);
  EXPECT_EQ(find(readable.bytes.data() + 5), &readable);
}

TEST_F(AddressMapTest, KnowsArenasOfOtherProcessesUntilTheyAreUnmapped) {
  const Peer peer(*world_.memory, 1);
  const BlockNumber block = *arena_.allocate(100);
  const testing::Sent sent = testing::send(arena_, block);
  auto opened = peer.open_arena(arena_.segment());
  ASSERT_TRUE(testing::receive(*opened, sent));
  const Object object(*opened, block, Access::read_write);
  const std::byte* const address = object.bytes.data();
  EXPECT_EQ(find(address), &object);
  opened->release(block);
  opened.reset();
  EXPECT_EQ(find(address), nullptr);
}

TEST(AddressRange, NamesMemoryWithOneObject) {
  std::vector<std::byte> memory(100);
  int object = 0;
  const auto any = [](void*) { return true; };
  {
    AddressRange moved;
    {
      AddressRange range(memory.data(), memory.size(), &object);
      EXPECT_EQ(AddressMap::get().find(&memory[99], any), &object);
      moved = std::move(range);
    }
    EXPECT_EQ(AddressMap::get().find(memory.data(), any), &object);
    EXPECT_EQ(AddressMap::get().find(memory.data() + 100, any), nullptr);
  }
  EXPECT_EQ(AddressMap::get().find(memory.data(), any), nullptr);
}

// Blocks get and lose objects, and arenas are mapped and unmapped, while threads look up.
TEST_F(AddressMapTest, AnswersWhileThreadsChangeIt) {
  const Object kept(arena_, 1000);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    while (!stop.load()) {
      Object object(arena_, 64);
      EXPECT_EQ(find(object.bytes.data()), &object);
      object.release();
    }
  });
  threads.emplace_back([&] {
    const Peer peer(*world_.memory, 2);
    while (!stop.load()) {
      const auto opened = peer.open_arena(arena_.segment());
      static_cast<void>(opened->bytes(kept.block, Access::read_only));
    }
  });
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(find(kept.bytes.data() + i % 1000), &kept);
  stop.store(true);
}

}  // namespace
}  // namespace shmtensor
