// A manager with few descriptors.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/server.hpp"

namespace shmtensor {
namespace {

using testing::Client;
using testing::eventually;

class ServerScarce : public testing::ServerTest {
 protected:
  void limit_descriptors(rlim_t count) const {
    const rlimit limit{count, count};
    ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  }
  /// Processor time that the server has used, in the kernel's ticks.
  [[nodiscard]] long ticks() const {
    std::ifstream file("/proc/" + std::to_string(server_->pid()) + "/stat");
    std::string text(std::istreambuf_iterator<char>(file), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    long user = 0;
    long system = 0;
    fields >> user >> system;
    return user + system;
  }
};

TEST_F(ServerScarce, NewcomersAreTurnedAwayAndMembersServed) {
  const Joined member = join();
  limit_descriptors(32);
  std::vector<std::unique_ptr<Client>> silent;
  const auto is_turned_away = [&] {
    silent.push_back(std::make_unique<Client>(id_));
    return silent.back()->is_hung_up_on(Join::observe);
  };
  int served = 0;
  while (served < 40 && !is_turned_away()) ++served;
  EXPECT_GT(served, 5);
  EXPECT_LT(served, 32);
  EXPECT_EQ(statistics(*member.client).processes, 1u);
  EXPECT_TRUE(is_turned_away()) << "at once, not after waiting";

  const long before = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(ticks() - before, 5) << "it is busy with those it cannot accept";

  silent.clear();
  EXPECT_TRUE(eventually([&] { return !is_turned_away(); })) << "there is room again";
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

// A descriptor that does not fit any more arrives as none.
TEST_F(ServerScarce, AnArenaThatCannotBeTakenOverIsRefused) {
  const Joined member = join();
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 10; ++i) {
    others.push_back(std::make_unique<Client>(id_));
    EXPECT_TRUE(others.back()->hello(Join::observe).has_value());
  }
  limit_descriptors(12);
  Message message = message_for(Kind::register_arena, id_);
  message.arena = 1;
  EXPECT_EQ(member.client->ask(message, &member.memory->file())->message.kind, Kind::refused);
  EXPECT_EQ(statistics(*member.client).arenas, 0u);
}

}  // namespace
}  // namespace shmtensor
