// A session with a manager, and a process that uses a queue or a broadcast.
#pragma once

#include <memory>

#include "os/shm_object.hpp"
#include "session/session.hpp"
#include "support/queue_world.hpp"
#include "support/server.hpp"

namespace shmtensor::testing {

/// Names a block for another process, which becomes its holder by the ticket.
struct Passed {
  ArenaNumber arena = 0;
  Sent sent;
};

/// A message with a number; with a block, the number is in it, too.
struct Letter {
  std::uint64_t number = 0;
  bool had_block = false;
};

/// `User` is a member of the session, with what the test is about.
template <typename User>
class ChannelTest : public ServerTest {
 protected:
  void TearDown() override {
    ServerTest::TearDown();
    for (const std::string& name : list_shm(object_name(id_) + "-")) unlink_shm(name);
  }
  /// Another manager, which is killed at a fault point unless that is null.
  void restart_server(const char* fault) {
    server_.reset();
    if (fault != nullptr) ::setenv("SHMTENSOR_FAULT", fault, 1);
    server_ = std::make_unique<ServerProcess>(id_);
    ::unsetenv("SHMTENSOR_FAULT");
    static_cast<void>(user_->session().manager().statistics());
  }
  /// Return true if, in the end, no block is used and no ticket is live. Releases the user's.
  [[nodiscard]] bool nothing_is_left() {
    user_->leave();
    return stay(0);
  }
  /// Return true if, in the end, so many blocks are used and no ticket is live.
  [[nodiscard]] bool stay(std::uint32_t blocks) {
    Client observer(id_);
    const auto reply = observer.hello(Join::observe);
    const auto memory = SessionMemory::open(id_, reply->fd.duplicate());
    return eventually([&] {
      user_->session().collect(kUnlimited);
      return live_tickets(*memory, 64) == 0 && used() == blocks;
    });
  }
  /// Blocks of all arenas that are live or draining.
  [[nodiscard]] std::uint32_t used() {
    std::uint32_t count = 0;
    Message message = message_for(MessageKind::next_arena, id_);
    Client observer(id_);
    observer.hello(Join::observe);
    for (message.arena = 0;;) {
      const auto reply = observer.ask(message);
      if (!reply || reply->message.kind != MessageKind::done) return count;
      message.arena = reply->message.arena;
      try {
        const PinnedArena arena =
            user_->session().attach(message.arena, Strategy{reply->message.strategy});
        count += used_blocks(arena->segment());
      } catch (const StaleHandle&) {
        // It was empty and has been closed.
      }
    }
  }

  const std::unique_ptr<User> user_ = std::make_unique<User>(id_);
};

}  // namespace shmtensor::testing
