// The messages between a process and the manager: docs/design/manager.md.
//
// A message on the SOCK_SEQPACKET connection is one request or one reply of fixed size, with at
// most one descriptor and, in a refusal, a text. A client sends a request and waits for the answer;
// the manager only answers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/ids.hpp"
#include "queue/summary.hpp"
#include "queue/watch_flag.hpp"

namespace shmtensor {

inline constexpr std::uint32_t kProtocolMagic = 0x6d747473;  // "sttm"
inline constexpr std::uint16_t kProtocolVersion = 12;

/// The timeout of a request.
inline constexpr std::chrono::milliseconds kTimeout{10'000};

/// The timeout of requests to a manager that did not answer a request in the last ten seconds.
inline constexpr std::chrono::milliseconds kShortTimeout{500};

/// The idle timeout: how long a manager without clients waits for new ones.
inline constexpr std::chrono::milliseconds kIdleTimeout{1'000};

enum class MessageKind : std::uint16_t {
  // requests
  hello = 1,       ///< first message; a returning member sends the session's memory
  register_arena,  ///< arena, strategy; carries the file of a memfd
  registered,      ///< a returning member has registered all its arenas; no answer
  find_arena,      ///< arena
  fork,            ///< carries the manager's end of the child's connection
  child,           ///< first message of a forked child on that connection; no answer
  statistics,      ///< of the session
  collect,         ///< number: cancel tickets of at least that age in milliseconds
  next_arena,      ///< arena: describe the arena with the next higher number
  next_queue,      ///< arena, number: describe the first queue in this block or after it
  keep_chunk,      ///< arena, chunk; carries the descriptor of a chunk of device memory
  find_chunk,      ///< arena, chunk
  drop_chunk,      ///< arena, chunk: its owner has freed the chunk
  retire_arena,    ///< arena: its owner allocates there no more and has unmapped it
  drain,           ///< arena, number: a block that contains tickets is unused; no answer
  watch_queue,  ///< arena, number: the block of a queue; event; carries a socket that the process
                ///< closes when it watches no more. The answer carries the ready pipe
  find_ready_pipe,  ///< arena, number, event: of a queue that others watch
  wake_watchers,    ///< arena, number, event: raise the ready pipe; no answer
  // replies
  welcome = 64,  ///< slot, incarnation; carries the session's memory
  done,          ///< the request was carried out
  refused,       ///< text holds the reason
  unknown,       ///< no such session, no such arena
};

/// Whether a hello may start a session.
enum class Join : std::uint32_t {
  existing = 1,  ///< join only if it exists
  create = 2,    ///< start it if it does not exist
  observe = 3,   ///< observe without a slot
};

struct Statistics {
  std::uint64_t processes = 0;
  std::uint64_t arenas = 0;
  std::uint64_t blocks = 0;          ///< live
  std::uint64_t bytes_live = 0;      ///< in live blocks, as requested
  std::uint64_t bytes_reserved = 0;  ///< pages of all arenas
  std::uint64_t in_flight = 0;       ///< live tickets
  std::uint64_t queues = 0;
  std::uint64_t queued = 0;  ///< unread messages in queues
};

struct Message {
  std::uint32_t magic = kProtocolMagic;
  std::uint16_t version = kProtocolVersion;
  MessageKind kind = MessageKind::hello;
  SessionId session;
  std::uint32_t slot = kNoSlot;
  std::uint32_t incarnation = 0;
  std::uint32_t arena = 0;
  std::uint32_t strategy = 0;
  std::uint32_t chunk = 0;
  std::uint32_t unfinished = 0;  ///< ask again; answer to collect: more memory can be released, to
                                 ///< find_arena: a member has yet to register its arenas
  Join join = Join::existing;
  std::int32_t parent = 0;
  QueueEvent event = QueueEvent::message;
  std::uint64_t number = 0;
  Statistics statistics;
  QueueSummary queue;
  std::array<char, 256> text{};

  void set_text(const std::string& value) noexcept {
    text = {};
    value.copy(text.data(), text.size() - 1);
  }
  /// Returns the text, which need not end with a null if the peer is hostile.
  [[nodiscard]] std::string get_text() const {
    return {text.data(), ::strnlen(text.data(), text.size())};
  }
};

static_assert(std::is_trivially_copyable_v<Message>);

[[nodiscard]] inline Message message_for(MessageKind kind, const SessionId& session) noexcept {
  Message message;
  message.kind = kind;
  message.session = session;
  return message;
}

/// A request about an event of a queue, or about a block.
[[nodiscard]] inline Message message_about(MessageKind kind, const SessionId& session,
                                           const WatchedQueue& queue) noexcept {
  Message message = message_for(kind, session);
  message.arena = queue.arena;
  message.number = queue.block;
  message.event = queue.event;
  return message;
}
/// What `message_about` has put into a message.
[[nodiscard]] inline WatchedQueue queue_of(const Message& message) noexcept {
  return {.arena = message.arena,
          .block = static_cast<BlockNumber>(message.number),
          .event = message.event};
}

}  // namespace shmtensor
