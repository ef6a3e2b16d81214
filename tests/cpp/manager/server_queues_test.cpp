// Sockets by which the manager wakes processes that watch queues.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "os/memfd.hpp"
#include "os/unix_socket.hpp"
#include "support/server.hpp"

namespace shmtensor {
namespace {

using testing::eventually;

class ServerQueues : public testing::ServerTest {
 protected:
  [[nodiscard]] Message request(MessageKind kind, std::uint64_t block,
                                QueueEvent event = QueueEvent::message) const {
    Message message = message_for(kind, id_);
    message.arena = 7;
    message.number = block;
    message.event = event;
    return message;
  }
  [[nodiscard]] Fd watch(testing::Client& client, std::uint64_t block,
                         QueueEvent event = QueueEvent::message) const {
    auto [ours, managers] = socket_pair();
    const auto reply = client.ask(request(MessageKind::watch_queue, block, event), &managers);
    EXPECT_EQ(reply->message.kind, MessageKind::done);
    return std::move(ours);
  }
  void wake(testing::Client& client, std::uint64_t block,
            QueueEvent event = QueueEvent::message) const {
    const Message message = request(MessageKind::wake_watchers, block, event);
    client.send_bytes(std::as_bytes(std::span(&message, 1)));
    // Answered after the notice.
    EXPECT_TRUE(client.ask(message_for(MessageKind::statistics, id_)));
  }
  /// How many wake-ups are unread.
  static int wakeups(const Fd& socket) {
    std::array<std::byte, 8> byte{};
    for (int count = 0;; ++count) {
      if (!receive_message(socket, byte, Wait::never)) return count;
    }
  }
  [[nodiscard]] std::ptrdiff_t descriptors() const {
    const std::filesystem::directory_iterator open("/proc/" + std::to_string(server_->pid()) +
                                                   "/fd");
    return std::distance(begin(open), end(open));
  }
};

TEST_F(ServerQueues, WakesThoseThatWatchThisEvent) {
  const Joined one = join();
  const Joined other = join();
  const Fd first = watch(*one.client, 1);
  const Fd second = watch(*other.client, 1);
  const Fd room = watch(*other.client, 1, QueueEvent::room);
  const Fd another = watch(*other.client, 2);
  wake(*one.client, 1);
  EXPECT_EQ(wakeups(first), 1);
  EXPECT_EQ(wakeups(second), 1);
  EXPECT_EQ(wakeups(room), 0);
  EXPECT_EQ(wakeups(another), 0);
  wake(*other.client, 1, QueueEvent::room);
  EXPECT_EQ(wakeups(room), 1);
  EXPECT_EQ(wakeups(first), 0);
}

TEST_F(ServerQueues, WakesEveryoneAfterADeath) {
  const Joined one = join();
  const Fd socket = watch(*one.client, 1);
  testing::Child doomed([&] { const Joined member = join(); });
  EXPECT_EQ(doomed.wait(), 0);
  EXPECT_TRUE(eventually([&] { return wakeups(socket) > 0; }));
}

TEST_F(ServerQueues, ClosesTheSocketAfterItsPeer) {
  const Joined one = join();
  const std::ptrdiff_t before = descriptors();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(eventually([&] { return descriptors() == before; }));
    const Fd socket = watch(*one.client, 1);
    EXPECT_EQ(descriptors(), before + 1);
    for (int j = 0; j < 5000; ++j) {  // a process that reads nothing does not stop the manager
      const Message message = request(MessageKind::wake_watchers, 1);
      one.client->send_bytes(std::as_bytes(std::span(&message, 1)));
    }
    wake(*one.client, 1);
  }
  EXPECT_TRUE(eventually([&] { return descriptors() == before; }));
}

TEST_F(ServerQueues, RefusesWhatItCannotWatch) {
  const Joined one = join();
  const Fd file = create_memfd("no socket");
  EXPECT_EQ(one.client->ask(request(MessageKind::watch_queue, 1))->message.kind,
            MessageKind::refused);
  EXPECT_EQ(one.client->ask(request(MessageKind::watch_queue, 1), &file)->message.kind,
            MessageKind::refused);
  testing::Client observer(id_);
  observer.hello(Join::observe);
  auto [ours, managers] = socket_pair();
  EXPECT_EQ(observer.ask(request(MessageKind::watch_queue, 1), &managers)->message.kind,
            MessageKind::refused);
  const Fd socket = watch(*one.client, 1);
  wake(observer, 1);
  EXPECT_EQ(wakeups(socket), 0);
}

}  // namespace
}  // namespace shmtensor
