// What descriptors of queues cost; tests/queues/test_descriptors.py has when they are readable.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <set>

#include "os/memfd.hpp"
#include "os/unix_socket.hpp"
#include "support/queue_user.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::Passed;
using testing::QueueUser;

class WatchedQueueTest : public testing::QueueTest {
 protected:
  void watch(std::uint64_t limit = 0) {
    user_->make(limit);
    descriptor_ = user_->queue().watch(QueueEvent::message);
    ASSERT_FALSE(readable());
  }
  [[nodiscard]] bool readable() const {
    Fd fd(descriptor_);
    const bool ready = is_readable(fd);
    static_cast<void>(fd.release());
    return ready;
  }
  /// Takes a message as the layers above do.
  std::optional<std::uint64_t> take_and_settle(QueueUser& user) {
    const auto number = user.next();
    if (user.queue().must_settle(QueueEvent::message)) user.queue().settle(QueueEvent::message);
    return number;
  }
  [[nodiscard]] std::set<rlim_t> descriptors_of_the_manager() const {
    std::set<rlim_t> numbers;
    const std::string folder = "/proc/" + std::to_string(server_->pid()) + "/fd";
    for (const auto& one : std::filesystem::directory_iterator(folder)) {
      numbers.insert(std::stoul(one.path().filename()));
    }
    return numbers;
  }

  int descriptor_ = -1;
};

// A later queue in the same block has a pipe of its own.
TEST_F(WatchedQueueTest, CostsTheManagerNothingAfterwards) {
  user_->make(0);
  const auto before = descriptors_of_the_manager();
  for (int round = 0; round < 3; ++round) {
    watch();
    EXPECT_EQ(descriptors_of_the_manager().size(), before.size() + 2);
    ASSERT_EQ(user_->put(1, false), Attempt::done);
    EXPECT_TRUE(readable());
    user_->leave();
    EXPECT_TRUE(eventually([&] { return descriptors_of_the_manager() == before; }));
  }
}

// Regression: the manager kept the socket.
TEST_F(WatchedQueueTest, CostsNothingIfTheManagerCannotMakeAPipe) {
  user_->make(0);
  const auto before = descriptors_of_the_manager();
  rlim_t room = 0;  // for the socket
  while (before.contains(room)) ++room;
  rlimit limit{};
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  const rlimit scarce{room + 1, limit.rlim_max};
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &scarce, nullptr), 0);
  try {
    static_cast<void>(user_->queue().watch(QueueEvent::message));
    ADD_FAILURE() << "the pipe was made";
  } catch (const SessionError& error) {
    EXPECT_NE(std::string(error.what()).find("pipe"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(eventually([&] { return descriptors_of_the_manager() == before; }));
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  watch();
}

// Regression: the notice stayed in the process until its next request.
TEST_F(WatchedQueueTest, IsReadableAfterAShutdownThatTheManagerIsTooBusyFor) {
  watch();
  const ArenaNumber arena = user_->block().arena->segment().number();
  ::kill(server_->pid(), SIGSTOP);
  for (BlockNumber block = 0; block < 1000; ++block) {  // more than fit
    user_->session().manager().drain(arena, block);
  }
  user_->queue().shut_down();
  ::kill(server_->pid(), SIGCONT);
  EXPECT_TRUE(eventually([&] { return readable(); }));
}

TEST_F(WatchedQueueTest, ThatNobodyWatchesAnyMoreIsUsedAsBefore) {
  user_->make(0);
  const Passed passed = user_->pass();
  testing::in_child([&] {
    QueueUser watcher(id_);
    watcher.open(passed);
    static_cast<void>(watcher.queue().watch(QueueEvent::message));
  });
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(user_->put(i, false), Attempt::done);
    EXPECT_EQ(take_and_settle(*user_), i);
    EXPECT_FALSE(user_->queue().must_settle(QueueEvent::message));
  }
}

class ManagerOfWatchedQueues : public testing::ServerTest {};

TEST_F(ManagerOfWatchedQueues, RefusesWhatItCannotWatch) {
  const Joined one = join();
  const Message request =
      message_about(MessageKind::watch_queue, id_, {.arena = 7, .block = 1, .event = {}});
  const Fd file = create_memfd("no socket");
  auto [ours, managers] = socket_pair();
  EXPECT_NE(refusal(one.client->ask(request)), "");
  EXPECT_NE(refusal(one.client->ask(request, &file)), "");
  EXPECT_EQ(refusal(one.client->ask(request, &managers)), "no such queue");
  testing::Client observer(id_);
  observer.hello(Join::observe);
  EXPECT_NE(refusal(observer.ask(request, &managers)), "");
}

}  // namespace
}  // namespace shmtensor
