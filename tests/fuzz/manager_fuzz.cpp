// Messages of any kind, with any descriptor, from a process that may be a member. The manager
// continues, and answers a valid member after each.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "base/error.hpp"
#include "input.hpp"
#include "manager/connection.hpp"
#include "manager/server.hpp"
#include "os/memfd.hpp"
#include "os/random.hpp"
#include "os/unix_socket.hpp"

using namespace shmtensor;

namespace {

constexpr std::chrono::milliseconds kShort{2};

/// A manager in a thread, and a member that keeps the session alive.
struct World {
  World() {
    std::optional<Fd> listener = listen_on(object_name(id));
    ::fcntl(listener->get(), F_SETFL, O_NONBLOCK);
    std::thread([this, fd = std::move(*listener)]() mutable {
      Server(id, std::move(fd)).run();
    }).detach();
    good = Connection::open(id, "");
    Message hello = message_for(MessageKind::hello, id);
    hello.join = Join::create;
    std::optional<Reply> welcome = good.ask(hello);
    memory = SessionMemory::open(id, std::move(welcome->fd));
    slot = static_cast<SlotNumber>(welcome->message.slot);
    incarnation = welcome->message.incarnation;
  }

  void check() {
    const std::optional<Reply> reply = good.ask(message_for(MessageKind::statistics, id));
    if (!reply || reply->message.kind != MessageKind::done) std::abort();
  }

  const SessionId id{random_word(), random_word()};
  Connection good;
  std::unique_ptr<SessionMemory> memory;
  SlotNumber slot = 0;
  std::uint32_t incarnation = 0;
};

Fd some_descriptor(World& world, fuzz::Input& input) {
  const auto kind = input.take<std::uint8_t>();
  switch (kind % 9) {
    case 0:
      return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    case 1:
      return Fd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    case 2: {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) return {};
      const Fd other(ends[1]);
      return Fd(ends[0]);
    }
    case 3:
      return socket_pair().second;
    case 4:
    case 5: {
      Fd file = create_memfd("fuzz");
      const auto bytes = input.take_bytes(input.take<std::uint8_t>());
      if (::pwrite(file.get(), bytes.data(), bytes.size(), 0) < 0) return {};
      if (::ftruncate(file.get(), input.take<std::uint32_t>() % (1 << 24)) != 0) return {};
      if (kind % 9 == 5) seal_against_shrinking(file);
      return file;
    }
    case 6:
      return world.memory->file().duplicate();
    case 7: {
      const auto arena = static_cast<ArenaNumber>(input.take<std::uint8_t>());
      const auto segment =
          Segment::create(world.id, arena, world.slot, world.incarnation, Strategy::file_descriptor,
                          SegmentLayout{4096, 64 << 20});
      Fd file = (*segment->file()).duplicate();
      for (auto patches = input.take<std::uint8_t>() % 4; patches > 0; --patches) {
        const auto at = static_cast<off_t>(input.take<std::uint16_t>() & ~7u);
        const auto value = input.take<std::uint64_t>();
        if (::pwrite(file.get(), &value, sizeof value, at) < 0) return {};
      }
      return file;
    }
    default:
      return {};
  }
}

void speak(World& world, fuzz::Input& input) {
  const std::optional<Fd> line = connect_to(object_name(world.id), kShort);
  if (!line) return;
  for (int messages = 0; messages < 16 && !input.empty(); ++messages) {
    const auto how = input.take<std::uint8_t>();
    if (how % 8 == 0) {  // an invalid message
      const auto bytes = input.take_bytes(1 + input.take<std::uint8_t>());
      send_message(*line, std::as_bytes(bytes));
    } else {
      Message message = message_for(static_cast<MessageKind>(how % 14), world.id);
      message.slot = how % 3 == 0 ? kNoSlot : input.take<std::uint8_t>();
      message.incarnation = input.take<std::uint8_t>();
      message.arena = input.take<std::uint8_t>();
      message.strategy = input.take<std::uint8_t>();
      message.chunk = input.take<std::uint16_t>();
      message.join = static_cast<Join>(input.take<std::uint8_t>() % 5);
      message.parent = input.take<std::int32_t>();
      message.number = input.take<std::uint64_t>();
      const Fd fd = some_descriptor(world, input);
      const int number = fd.get();
      send_message(*line, std::as_bytes(std::span(&message, 1)),
                   fd ? std::span(&number, 1) : std::span<const int>());
    }
    if (how % 16 < 12) {
      Message answer;
      const auto received = receive_message(*line, std::as_writable_bytes(std::span(&answer, 1)));
      if (!received || received->size == 0) return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World& world = *new World;
  std::fflush(nullptr);
  const pid_t child = ::fork();  // its exit frees the slot
  if (child == 0) {
    try {
      fuzz::Input input(data, size);
      speak(world, input);
    } catch (const Error&) {
      // the manager closed the connection
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) != child) {
    if (errno != EINTR) std::abort();  // the fuzzer has a timer
  }
  if (!WIFEXITED(status)) {
    std::fprintf(stderr, "the client ended by signal %d\n", WTERMSIG(status));
    std::abort();
  }
  world.check();
  return 0;
}
