// What a process and the manager say to each other: docs/design/manager-protocol.md.
//
// One SOCK_SEQPACKET message is one request or one reply of fixed size, with at most one descriptor
// and, in a reply that refuses, a text. A client asks and waits for the answer; the manager never
// speaks first.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/ids.hpp"

namespace shmtensor {

inline constexpr std::uint32_t kProtocolMagic = 0x6d747473;  // "sttm"
inline constexpr std::uint16_t kProtocolVersion = 2;

/// No request waits longer than this for its answer.
inline constexpr std::chrono::milliseconds kPatience{10'000};

/// How long a manager without clients waits for new ones.
inline constexpr std::chrono::milliseconds kLinger{1'000};

enum class Kind : std::uint16_t {
  // requests
  hello = 1,       ///< first message; a returning member brings the session's memory
  register_arena,  ///< arena, strategy; brings the file of a memfd
  find_arena,      ///< arena
  fork,            ///< brings the manager's end of the child's connection
  child,           ///< first message of a forked child on that connection; no answer
  statistics,      ///< of the session
  collect,         ///< number: spend tickets at least so many milliseconds old
  next_arena,      ///< arena: describe the one with the next higher number
  keep_chunk,      ///< arena, chunk; brings the descriptor of a piece of device memory
  find_chunk,      ///< arena, chunk
  drop_chunk,      ///< arena, chunk: its owner has given it back
  // replies
  welcome = 64,  ///< slot, life; brings the session's memory
  done,          ///< whatever the request asked for
  refused,       ///< text says why
  unknown,       ///< no such session, no such arena
};

/// Whether a hello may start a session.
enum class Join : std::uint32_t {
  existing = 1,  ///< only one that lives
  create = 2,    ///< start it if there is none
  observe = 3,   ///< look on without a slot
};

struct Statistics {
  std::uint64_t processes = 0;
  std::uint64_t arenas = 0;
  std::uint64_t blocks = 0;          ///< live
  std::uint64_t bytes_live = 0;      ///< in live blocks, as asked for
  std::uint64_t bytes_reserved = 0;  ///< pages of all arenas
  std::uint64_t in_flight = 0;       ///< live tickets
};

struct Message {
  std::uint32_t magic = kProtocolMagic;
  std::uint16_t version = kProtocolVersion;
  Kind kind = Kind::hello;
  SessionId session;
  std::uint32_t slot = kNoSlot;
  std::uint32_t life = 0;
  std::uint32_t arena = 0;
  std::uint32_t strategy = 0;
  std::uint32_t chunk = 0;
  std::uint32_t unfinished = 0;  ///< answer to collect: memory is being given back; ask again
  Join join = Join::existing;
  std::int32_t parent = 0;
  std::uint64_t number = 0;
  Statistics statistics;
  std::array<char, 256> text{};

  void set_text(const std::string& value) noexcept {
    text = {};
    value.copy(text.data(), text.size() - 1);
  }
};

[[nodiscard]] inline Message message_for(Kind kind, const SessionId& session) noexcept {
  Message message;
  message.kind = kind;
  message.session = session;
  return message;
}

}  // namespace shmtensor
