// Slots for children that are about to be forked.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/fork_mark.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Client;
using testing::eventually;

class ServerForks : public testing::ServerTest {
 protected:
  struct Place {
    SlotNumber slot = kNoSlot;
    std::uint32_t incarnation = 0;
    Fd line;  ///< the child's end
  };
  Place prepare() {
    auto [ours, childs] = socket_pair();
    const auto reply = member_.client->ask(MessageKind::fork, &ours);
    EXPECT_EQ(reply->message.kind, MessageKind::done);
    return {static_cast<SlotNumber>(reply->message.slot), reply->message.incarnation,
            std::move(childs)};
  }
  [[nodiscard]] const SlotRecord& record(const Place& place) const {
    return member_.memory->slot(place.slot);
  }
  [[nodiscard]] bool free_again(const Place& place) const {
    return eventually([&] { return record(place).status.load() == SlotStatus::unused; });
  }

  const Joined member_ = join();
};

TEST_F(ServerForks, ChildIdentifiesItselfAndJoins) {
  Place place = prepare();
  EXPECT_NE(place.slot, member_.slot);
  EXPECT_EQ(record(place).status.load(), SlotStatus::forking);
  EXPECT_EQ(record(place).parent.load(), ::getpid());
  Child child([&] {
    // Otherwise the memory takes the parent's lock for its own, and unmaps what has its address
    // here.
    mark_forked_child();
    ASSERT_TRUE(member_.memory->enter(place.slot, SlotStatus::forking));
    Client client(id_, std::move(place.line));
    const Message message = message_for(MessageKind::child, id_);
    client.send_bytes(std::as_bytes(std::span(&message, 1)));
    // The child uses the connection as its own.
    EXPECT_EQ(statistics(client).processes, 2u);
    ::pause();
  });
  place.line.reset();
  EXPECT_TRUE(eventually([&] { return record(place).pid.load() == child.pid(); }));
  EXPECT_TRUE(eventually([&] { return record(place).status.load() == SlotStatus::active; }));
  EXPECT_EQ(record(place).start_time.load(), start_time_of(child.pid()));
  child.kill_and_reap();
  EXPECT_TRUE(free_again(place));
  EXPECT_EQ(statistics(*member_.client).processes, 1u);
}

TEST_F(ServerForks, FailedForkCountsAsDeath) {
  Place place = prepare();
  EXPECT_EQ(statistics(*member_.client).processes, 2u);
  place.line.reset();
  EXPECT_TRUE(free_again(place));
  EXPECT_TRUE(eventually([&] { return member_.memory->header().deaths.load() == 1; }));
}

TEST_F(ServerForks, ChildThatDiesBeforeHelloCountsAsDeath) {
  Place place = prepare();
  Child child([&] { ::pause(); });
  place.line.reset();
  EXPECT_EQ(record(place).status.load(), SlotStatus::forking) << "the child has the other end";
  child.kill_and_reap();
  EXPECT_TRUE(free_again(place));
}

TEST_F(ServerForks, OnlyAnnouncedChildrenJoin) {
  Client stranger(id_);
  const Message message = message_for(MessageKind::child, id_);
  stranger.send_bytes(std::as_bytes(std::span(&message, 1)));
  member_.client->send_bytes(std::as_bytes(std::span(&message, 1)));
  EXPECT_EQ(refusal(stranger.ask(MessageKind::find_arena)), "no session joined on this connection");
  EXPECT_EQ(statistics(*member_.client).processes, 1u);
  EXPECT_EQ(member_.memory->slot(member_.slot).pid.load(), ::getpid());
}

// Other processes have descriptors of its open file, which would wake the loop indefinitely.
TEST_F(ServerForks, ClosedConnectionIsNotPolled) {
  const auto watched = [&] {
    std::size_t count = 0;
    const std::string folder = "/proc/" + std::to_string(server_->pid()) + "/fdinfo";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) count += line.starts_with("tfd:") ? 1u : 0u;
    }
    return count;
  };
  const std::size_t before = watched();
  auto [ours, childs] = socket_pair();
  const auto reply = member_.client->ask(MessageKind::fork, &ours);
  Place place{static_cast<SlotNumber>(reply->message.slot), 0, std::move(childs)};
  EXPECT_EQ(watched(), before + 1);
  place.line.reset();
  EXPECT_TRUE(free_again(place));
  EXPECT_EQ(watched(), before);
}

TEST_F(ServerForks, ForkRequestNeedsASocket) {
  EXPECT_EQ(refusal(member_.client->ask(MessageKind::fork)), "a fork request needs a socket");
  const Fd file = create_memfd("no socket");
  EXPECT_EQ(refusal(member_.client->ask(MessageKind::fork, &file)),
            "a fork request needs a socket");
  EXPECT_EQ(statistics(*member_.client).processes, 1u);
}

TEST_F(ServerForks, SlotsAreExhaustedAndReused) {
  std::vector<Place> places;
  places.reserve(kMaxSlots);
  while (places.size() < kMaxSlots - 1) places.push_back(prepare());
  std::vector<bool> seen(kMaxSlots, false);
  for (const Place& place : places) {
    EXPECT_FALSE(seen[place.slot]);
    seen[place.slot] = true;
  }
  auto [ours, childs] = socket_pair();
  const std::string why =
      "all 1024 slots of the session are taken, one by each process that uses it; end some, or let "
      "others use another session (SHMTENSOR_SESSION)";
  EXPECT_EQ(refusal(member_.client->ask(MessageKind::fork, &ours)), why);
  EXPECT_EQ(refusal(Client(id_).hello(Join::create)), why);
  const SlotNumber slot = places[500].slot;
  places[500].line.reset();
  EXPECT_TRUE(
      eventually([&] { return member_.memory->slot(slot).status.load() == SlotStatus::unused; }));
  EXPECT_EQ(prepare().slot, slot);
}

}  // namespace
}  // namespace shmtensor
