// Pipes that members ask the manager to watch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "os/pipe_readers.hpp"
#include "support/message_ends.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Shared;
using testing::Turn;

class ServerPipes : public testing::ServerTest {
 protected:
  /// Returns true if the manager has the pipe open.
  [[nodiscard]] bool watches(std::uint32_t number) const {
    const std::string pipe = "pipe:[" + std::to_string(number) + "]";
    const std::filesystem::directory_iterator open("/proc/" + std::to_string(server_->pid()) +
                                                   "/fd");
    return std::ranges::any_of(open, [&](const auto& descriptor) {
      std::error_code closed;
      return std::filesystem::read_symlink(descriptor, closed) == pipe;
    });
  }
  void send_watch_pipe(testing::Client& client, const testing::MessageEnds& ends) const {
    Message message = message_for(MessageKind::watch_pipe, id_);
    message.pipe = pipe_number(ends.writer.get());
    const Fd location = open_pipe_location(ends.writer.get(), message.pipe);
    client.send_bytes(std::as_bytes(std::span(&message, 1)), &location);
  }
};

// A member is killed after `watch_pipe`, before the manager reads it, which then notices the death
// first. A reply that the member did not read makes the kernel report an error before the message.
TEST_F(ServerPipes, LastRequestsOfKilledMembersAreRead) {
  const Joined member = join();
  for (const bool leaves_a_reply : {false, true}) {
    const testing::MessageEnds ends = testing::MessageEnds::of_pipe();
    const Shared<Turn> turn;
    Child child([&] {
      const Joined doomed = join();
      if (leaves_a_reply) {
        const Message request = message_for(MessageKind::statistics, id_);
        doomed.client->send_bytes(std::as_bytes(std::span(&request, 1)));
      }
      turn->set(1);
      ASSERT_TRUE(turn->reaches(2));
      send_watch_pipe(*doomed.client, ends);
      turn->set(3);
      ::pause();
    });
    ASSERT_TRUE(turn->reaches(1));
    EXPECT_EQ(statistics(*member.client).processes, 2u);
    ::kill(server_->pid(), SIGSTOP);
    turn->set(2);
    ASSERT_TRUE(turn->reaches(3));
    child.kill_and_reap();
    ::kill(server_->pid(), SIGCONT);
    EXPECT_EQ(statistics(*member.client).processes, 1u);
    EXPECT_TRUE(watches(pipe_number(ends.writer.get())));
  }
}

}  // namespace
}  // namespace shmtensor
