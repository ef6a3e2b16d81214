// A client and managers that answer wrongly, or not at all.
#include "manager/connection.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "manager/manager_address.hpp"
#include "os/unix_socket.hpp"
#include "support/names.hpp"

namespace shmtensor {
namespace {

/// Answers the first request of one connection with any bytes.
class FalseManager {
 public:
  using Answer = std::function<std::vector<std::byte>(Message)>;

  FalseManager(const SessionId& session, Answer answer)
      : listener_(*listen_as_manager(session)), thread_([this, answer = std::move(answer)] {
          const Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
          Message request;
          if (!receive_message(socket, std::as_writable_bytes(std::span(&request, 1)))) return;
          send_message(socket, answer(request));
        }) {}
  ~FalseManager() { thread_.join(); }

 private:
  Fd listener_;
  std::thread thread_;
};

std::vector<std::byte> bytes_of(const Message& message, std::size_t more = 0) {
  const auto bytes = std::as_bytes(std::span(&message, 1));
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  all.resize(all.size() + more);
  return all;
}

std::string error_of(const FalseManager::Answer& answer) {
  const SessionId session = testing::fresh_session();
  const FalseManager manager(session, answer);
  Connection connection = Connection::open(session, "");
  try {
    static_cast<void>(connection.ask(message_for(MessageKind::hello, session)));
  } catch (const SessionError& error) {
    EXPECT_FALSE(connection) << "it is closed";
    return error.what();
  }
  return "none";
}

TEST(ConnectionTest, RefusalWithoutNullEndsWithItsField) {
  const std::string text = error_of([](Message message) {
    message.kind = MessageKind::refused;
    message.text.fill('A');
    return bytes_of(message);
  });
  EXPECT_TRUE(text.ends_with(" refuses: " + std::string(Message{}.text.size(), 'A'))) << text;
}

TEST(ConnectionTest, AnswersOfOtherVersionsAreNamed) {
  const auto expect = [](const char* what, const FalseManager::Answer& answer) {
    const std::string text = error_of(answer);
    EXPECT_NE(text.find("incompatible protocol version"), std::string::npos) << what << text;
  };
  expect("longer: ", [](const Message& message) { return bytes_of(message, 100); });
  expect("shorter: ", [](const Message&) { return std::vector<std::byte>(10); });
  expect("number: ", [](Message message) {
    message.version = kProtocolVersion + 1;
    return bytes_of(message);
  });
  expect("without a descriptor: ", [](Message message) {
    message.kind = MessageKind::welcome;
    return bytes_of(message);
  });
}

}  // namespace
}  // namespace shmtensor
