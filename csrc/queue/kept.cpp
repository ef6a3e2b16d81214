#include "queue/kept.hpp"

namespace shmtensor {

KeptMessages KeptMessages::in(std::span<std::byte> block) noexcept {
  if (block.size() < kBytes) return {};
  auto& header = *reinterpret_cast<QueueHeader*>(block.data());
  return header.redelivers.load() == 1 ? KeptMessages(header) : KeptMessages();
}

std::optional<std::uint32_t> KeptMessages::find_free() const noexcept {
  const std::span<KeptRecord> known = used();
  const auto free =
      std::ranges::find_if(known, [](const KeptRecord& one) { return one.owner.load() == 0; });
  const auto number = static_cast<std::uint32_t>(free - known.begin());
  if (number == kRecords) return std::nullopt;
  if (free == known.end()) header_->kept_used.store(number + 1);
  return number;
}

std::optional<std::uint32_t> KeptMessages::find_first_returned() const noexcept {
  const std::span<KeptRecord> known = used();
  std::optional<std::uint32_t> first;
  for (std::uint32_t i = 0; i < known.size(); ++i) {
    if (known[i].owner.load() != KeptRecord::kReturned) continue;
    if (!first || known[i].position.load() < known[*first].position.load()) first = i;
  }
  return first;
}

void KeptMessages::own(std::uint32_t number, SlotNumber owner) const noexcept {
  record(number).owner.store(owner + 1u);
}

bool KeptMessages::has_free() const noexcept {
  return used().size() < kRecords ||
         std::ranges::any_of(used(), [](const KeptRecord& one) { return one.owner.load() == 0; });
}

bool KeptMessages::any_owned() const noexcept {
  return std::ranges::any_of(used(), [](const KeptRecord& one) {
    const std::uint32_t owner = one.owner.load();
    return owner != 0 && owner != KeptRecord::kReturned;
  });
}

bool KeptMessages::any() const noexcept {
  return std::ranges::any_of(used(), [](const KeptRecord& one) { return one.owner.load() != 0; });
}

std::uint32_t KeptMessages::count_returned() const noexcept {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      used(), [](const KeptRecord& one) { return one.owner.load() == KeptRecord::kReturned; }));
}

bool KeptMessages::has(std::uint64_t position) const noexcept {
  return std::ranges::any_of(used(), [position](const KeptRecord& one) {
    return one.owner.load() != 0 && one.position.load() == position;
  });
}

// The stage, then the owners, then what can be taken: as in `Queue::take_locked`.
bool has_happened(const QueueHeader& queue, const KeptMessages& kept, QueueEvent event) noexcept {
  const bool stopped = queue.is_shut_down();
  if (event == QueueEvent::message) {
    const bool ends = stopped && !kept.any_owned();
    if (kept.count_returned() != 0) return true;
    return queue.waiting() != 0 ? !kept || kept.has_free() : ends;
  }
  if (stopped) return true;
  const bool ring = queue.tail.ring.load() + 1 - queue.head.ring.load() < QueueHeader::kRings;
  return ring && !queue.is_full();
}

}  // namespace shmtensor
