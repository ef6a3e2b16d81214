// A member of the session writes anything into a queue or a broadcast between the calls of another.
// Each call ends, with a result or an error, and touches nothing outside of the mappings.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "channel/broadcast.hpp"
#include "channel/channel_call.hpp"
#include "channel/queue.hpp"
#include "input.hpp"
#include "manager/server.hpp"
#include "os/random.hpp"
#include "os/unix_socket.hpp"
#include "patch.hpp"
#include "session/session.hpp"

using namespace shmtensor;

namespace {

constexpr std::chrono::nanoseconds kBrief = std::chrono::microseconds(1);
constexpr std::uint64_t kBlock = 300;
constexpr int kMostSteps = 64;
constexpr std::size_t kHead = 640;  // the locks and the counts of a channel

/// A session of this process, with a manager.
class World {
 public:
  World() {
    std::optional<Fd> listener = listen_on(object_name(id_));
    ::fcntl(listener->get(), F_SETFL, O_NONBLOCK);
    manager_ = ::fork();
    if (manager_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Server(id_, std::move(*listener)).run();
      ::_exit(0);
    }
    listener.reset();
    session_ = Session::connect(id_, Session::Start::always, {}, budget_);
  }
  ~World() {
    session_.reset();
    ::kill(manager_, SIGKILL);
    ::waitpid(manager_, nullptr, 0);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Session& session() const noexcept { return *session_; }
  [[nodiscard]] HeldBlock allocate(std::uint64_t size) const {
    return HeldBlock(session_->allocate(size, Strategy::file_descriptor));
  }

 private:
  SessionId id_{random_word(), random_word()};
  pid_t manager_ = 0;
  Budget budget_;
  std::unique_ptr<Session> session_;
};

/// Calls a function; errors are results, too.
template <typename Body>
void expect_end(Body&& body) {
  try {
    body();
  } catch (const Error&) {
    // refused
  }
}

/// A few attempts, with what each lacks.
template <typename Channel, typename Try>
void attempt(Channel& channel, Session& session, Try&& one) {
  expect_end([&] {
    ChannelCall call(session);
    for (int i = 0; i < 3; ++i) {
      const Attempt result = one(call);
      if (is_final(result)) return;
      channel.prepare(result, call, kBrief);
    }
  });
}

[[nodiscard]] Outgoing message_in(const HeldBlock& block, std::span<const std::byte> content) {
  return {.kind = 1, .content = content, .block = block ? *block : Block{}};
}

void use_queue(World& world, Queue& queue, fuzz::Input& input) {
  const auto choice = input.take<std::uint8_t>();
  Incoming incoming;
  std::uint64_t taken = 0;
  switch (choice % 7) {
    case 0:
      expect_end([&] {
        const HeldBlock block = choice < 128 ? HeldBlock() : world.allocate(kBlock);
        attempt(queue, world.session(), [&](ChannelCall& call) {
          return queue.try_put(message_in(block, std::as_bytes(std::span(&choice, 1))), call);
        });
      });
      break;
    case 1:
      attempt(queue, world.session(),
              [&](ChannelCall& call) { return queue.try_take(incoming, call); });
      break;
    case 2:
      attempt(queue, world.session(),
              [&](ChannelCall& call) { return queue.try_count_taken(taken, call); });
      break;
    case 3:
      static_cast<void>(queue.size());
      expect_end([&] { static_cast<void>(queue.task_done()); });
      queue.wait_until_done(kBrief);
      break;
    case 4:
      if (!queue.redelivers()) break;
      expect_end([&] { queue.complete_all(); });
      break;
    case 5:
      if (queue.redelivers()) queue.return_all();
      break;
    default:
      expect_end([&] { queue.shut_down(); });
  }
}

void use_broadcast(World& world, Broadcast& broadcast, std::unique_ptr<BroadcastReader>& reader,
                   fuzz::Input& input) {
  const auto choice = input.take<std::uint8_t>();
  Incoming incoming;
  switch (choice % 5) {
    case 0:
      expect_end([&] {
        const HeldBlock block = choice < 128 ? HeldBlock() : world.allocate(kBlock);
        attempt(broadcast, world.session(), [&](ChannelCall& call) {
          return broadcast.try_put(message_in(block, std::as_bytes(std::span(&choice, 1))), call);
        });
      });
      break;
    case 1:
    case 2:
      if (reader) {
        attempt(*reader, world.session(),
                [&](ChannelCall& call) { return reader->try_take(incoming, call); });
      }
      break;
    case 3:
      static_cast<void>(broadcast.lag());
      static_cast<void>(broadcast.readers());
      broadcast.wait_for_readers(1, kBrief);
      break;
    default:
      expect_end([&] {
        reader.reset();
        reader = std::make_unique<BroadcastReader>(broadcast);
      });
  }
}

/// Overwrites a word of the block: often one of its first, which have the locks and the counts.
void patch(std::span<std::byte> bytes, fuzz::Input& input) {
  const auto at = input.take<std::uint16_t>();
  const std::size_t words = (at % 2 == 0 ? kHead : bytes.size()) / 8;
  const std::uint64_t value = fuzz::take_value(input);
  std::memcpy(bytes.data() + at / 2 % words * 8, &value, sizeof value);
}

/// The same in a queue, where it may be a word of the first kept messages, or of their records.
void patch_queue(std::span<std::byte> bytes, bool redelivers, fuzz::Input& input) {
  constexpr std::size_t kMessages = 4;
  const auto part = input.take<std::uint8_t>() % 4;
  if (!redelivers || part < 2) return patch(bytes.first(sizeof(QueueHeader)), input);
  patch(part == 2
            ? bytes.subspan(sizeof(QueueHeader), std::max(kHead, kMessages * sizeof(MessageEntry)))
            : bytes.subspan(KeptMessages::kOffsetOfRecords, kHead),
        input);
}

void fuzz_queue(World& world, fuzz::Input& input) {
  const auto choice = input.take<std::uint8_t>();
  const bool redelivers = choice >= 128;
  const HeldBlock block = world.allocate(Queue::bytes(redelivers));
  Queue::create(*block, {.limit = std::uint64_t{choice} % 64,
                         .max_bytes = choice % 3 == 0 ? 500u : 0u,
                         .redelivers = redelivers});
  const std::span<std::byte> bytes = block->arena->bytes(block->number, Access::read_write);
  Queue queue(world.session(), *block);
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    if (input.take<std::uint8_t>() % 2 == 0) patch_queue(bytes, redelivers, input);
    use_queue(world, queue, input);
  }
}

void fuzz_broadcast(World& world, fuzz::Input& input) {
  const auto choice = input.take<std::uint8_t>();
  const std::uint64_t limit = 1 + std::uint64_t{choice} % 16;
  const HeldBlock block = world.allocate(BroadcastHeader::bytes(limit));
  Broadcast::create(*block, {.limit = limit,
                             .max_bytes = choice % 3 == 0 ? 500u : 0u,
                             .on_full = OnFull(input.take<std::uint8_t>() % 3)});
  const std::span<std::byte> bytes = block->arena->bytes(block->number, Access::read_write);
  Broadcast broadcast(world.session(), *block);
  std::unique_ptr<BroadcastReader> reader = std::make_unique<BroadcastReader>(broadcast);
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    if (input.take<std::uint8_t>() % 2 == 0) patch(bytes, input);
    use_broadcast(world, broadcast, reader, input);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Overwritten tickets leave their blocks allocated, as long as the session exists.
  static std::unique_ptr<World> world;
  static int uses = 0;
  if (uses++ % 500 == 0) {
    world.reset();
    world = std::make_unique<World>();
  }
  fuzz::Input input(data, size);
  // Refused: the damage can be found when a channel is opened, or when memory is needed.
  expect_end([&] {
    if (input.take<std::uint8_t>() % 2 == 0) {
      fuzz_queue(*world, input);
    } else {
      fuzz_broadcast(*world, input);
    }
  });
  return 0;
}
