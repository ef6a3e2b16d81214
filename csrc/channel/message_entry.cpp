#include "channel/message_entry.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/atomic.hpp"

namespace shmtensor {

void write_entry(MessageEntry& entry, const Outgoing& message) {
  entry.ticket.clear();
  entry.kind.store(message.kind, std::memory_order_release);
  entry.size.store(static_cast<std::uint16_t>(message.content.size()), std::memory_order_release);
  std::array<std::uint64_t, MessageEntry::kContent / 8> words{};
  std::ranges::copy(message.content, std::as_writable_bytes(std::span(words)).begin());
  auto* const to = reinterpret_cast<std::uint64_t*>(entry.content.data());
  for (std::size_t i = 0; i * 8 < message.content.size(); ++i) {
    AtomicRef<std::uint64_t>(to[i]).store(words[i], std::memory_order_release);
  }
  if (message.block.arena == nullptr) return;
  const auto strategy = message.block.arena->segment().strategy();
  entry.strategy.store(static_cast<std::uint8_t>(strategy), std::memory_order_release);
  entry.access.store(message.access, std::memory_order_release);
  static_cast<void>(message.block.arena->send(message.block.number, entry.ticket));
}

void copy_entry(const MessageEntry& entry, Incoming& message) noexcept {
  message.kind = entry.kind.load(std::memory_order_acquire);
  message.size =
      std::min<std::uint32_t>(entry.size.load(std::memory_order_acquire), MessageEntry::kContent);
  const Access access = entry.access.load(std::memory_order_acquire);
  message.access = access == Access::read_only ? Access::read_only : Access::read_write;
  std::array<std::uint64_t, MessageEntry::kContent / 8> words{};
  auto* const from =
      const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(entry.content.data()));
  for (std::size_t i = 0; i * 8 < message.size; ++i) {
    words[i] = AtomicRef<std::uint64_t>(from[i]).load(std::memory_order_acquire);
  }
  std::memcpy(message.content.data(), words.data(), message.size);
}

}  // namespace shmtensor
