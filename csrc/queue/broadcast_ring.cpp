#include "queue/broadcast_ring.hpp"

#include "queue/rings.hpp"

namespace shmtensor {

std::optional<BroadcastRing> BroadcastRing::in(std::span<std::byte> bytes) noexcept {
  if (bytes.size() < sizeof(BroadcastHeader) || !is_aligned(bytes)) return std::nullopt;
  auto& header = *reinterpret_cast<BroadcastHeader*>(bytes.data());
  const std::uint64_t limit = header.limit.load();
  if (header.magic.load() != kBroadcastMagic || limit == 0 ||
      limit > BroadcastHeader::kMostMessages || bytes.size() < BroadcastHeader::bytes(limit)) {
    return std::nullopt;
  }
  return BroadcastRing(
      header, reinterpret_cast<MessageEntry*>(bytes.data() + sizeof(BroadcastHeader)), limit);
}

}  // namespace shmtensor
