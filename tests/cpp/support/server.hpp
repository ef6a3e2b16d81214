// A manager's server in a child process, and clients that send it single messages.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <span>

#include "arena/session_memory.hpp"
#include "base/error.hpp"
#include "manager/connection.hpp"
#include "manager/protocol.hpp"
#include "manager/server.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/names.hpp"
#include "support/wait.hpp"

namespace shmtensor::testing {

/// Runs the server's loop as the program does.
class ServerProcess {
 public:
  explicit ServerProcess(const SessionId& session) {
    std::optional<Fd> listener;
    // The previous owner of the name may be about to exit.
    if (!eventually([&] { return (listener = listen_on(object_name(session))).has_value(); })) {
      throw Error("another manager serves this session already");
    }
    ::fcntl(listener->get(), F_SETFL, O_NONBLOCK);
    child_ = std::make_unique<Child>([&] {
      Server server(session, std::move(*listener));
      server.run();
    });
  }

  [[nodiscard]] pid_t pid() const noexcept { return child_->pid(); }
  void kill() { child_->kill_and_reap(); }
  /// Waits until it ends by itself.
  int wait() { return child_->wait(); }

 private:
  std::unique_ptr<Child> child_;
};

/// One connection. Refusals are returned, not thrown.
class Client {
 public:
  explicit Client(const SessionId& session)
      : session_(session), socket_(*connect_to(object_name(session), kTimeout)) {}
  Client(const SessionId& session, Fd socket) : session_(session), socket_(std::move(socket)) {}

  /// Returns nothing if the other side has closed.
  std::optional<Reply> ask(const Message& message, const Fd* fd = nullptr) {
    send_bytes(std::as_bytes(std::span(&message, 1)), fd);
    return receive();
  }
  std::optional<Reply> ask(MessageKind kind, const Fd* fd = nullptr) {
    return ask(message_for(kind, session_), fd);
  }
  std::optional<Reply> hello(Join join, const Fd* fd = nullptr) {
    Message message = message_for(MessageKind::hello, session_);
    message.join = join;
    message.parent = parent;
    return ask(message, fd);
  }
  void send_bytes(std::span<const std::byte> bytes, const Fd* fd = nullptr) {
    const int number = fd != nullptr ? fd->get() : -1;
    send_message(socket_, bytes, fd != nullptr ? std::span(&number, 1) : std::span<const int>());
  }
  std::optional<Reply> receive() {
    Reply reply;
    auto received = receive_message(socket_, std::as_writable_bytes(std::span(&reply.message, 1)));
    if (!received || received->size == 0) return std::nullopt;
    EXPECT_EQ(received->size, sizeof(Message));
    if (!received->fds.empty()) reply.fd = std::move(received->fds.front());
    return reply;
  }
  /// Sends hello; returns true if the other side closed instead of answering.
  bool is_hung_up_on(Join join) {
    try {
      return !hello(join).has_value();
    } catch (const OsError& error) {
      EXPECT_TRUE(error.code() == ECONNRESET || error.code() == EPIPE) << error.what();
      return true;
    }
  }
  void close() { socket_.reset(); }

  std::int32_t parent = 0;

 private:
  SessionId session_;
  Fd socket_;
};

/// A fresh session with a server.
class ServerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (server_) server_->kill();
  }

  /// A client that is a member, and the session's memory.
  struct Joined {
    std::unique_ptr<Client> client;
    std::unique_ptr<SessionMemory> memory;
    SlotNumber slot = kNoSlot;
    std::uint32_t incarnation = 0;
  };
  [[nodiscard]] Joined join() const {
    Joined joined{std::make_unique<Client>(id_), nullptr};
    auto reply = joined.client->hello(Join::create);
    if (!reply || reply->message.kind != MessageKind::welcome) throw Error("no welcome");
    joined.memory = SessionMemory::open(id_, std::move(reply->fd));
    joined.slot = static_cast<SlotNumber>(reply->message.slot);
    joined.incarnation = reply->message.incarnation;
    EXPECT_TRUE(joined.memory->enter(joined.slot, SlotStatus::joining));
    return joined;
  }
  [[nodiscard]] static Statistics statistics(Client& client) {
    const auto reply = client.ask(MessageKind::statistics);
    if (!reply || reply->message.kind != MessageKind::done) throw Error("no statistics");
    return reply->message.statistics;
  }
  [[nodiscard]] static std::string refusal(const std::optional<Reply>& reply) {
    if (!reply) return "no answer";
    return reply->message.kind == MessageKind::refused ? reply->message.text.data() : "";
  }

  const SessionId id_ = fresh_session();
  std::unique_ptr<ServerProcess> server_ = std::make_unique<ServerProcess>(id_);
};

}  // namespace shmtensor::testing
