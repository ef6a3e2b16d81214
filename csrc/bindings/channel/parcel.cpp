#include "bindings/channel/parcel.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>

#include "base/error.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {

// The records are cleared before the block is declared to contain them, and each is written before
// its ticket is issued: if this process is killed, the manager cancels those that were issued.
HeldBlock make_parcel(Session& session, std::span<const std::byte> content, MessageScope* scope) {
  const std::size_t count = scope != nullptr ? scope->needed() : 0;
  const std::size_t head = sizeof(ParcelHeader) + count * sizeof(ParcelRecord);
  const std::uint64_t size = head + content.size();
  std::optional<Block> block = session.allocate_warm(size, Strategy::file_descriptor);
  if (!block) {
    const GilRelease release;
    block = session.allocate(size, Strategy::file_descriptor);
  }
  HeldBlock parcel(*block);
  const std::span<std::byte> bytes = bytes_of(parcel->arena, parcel->number, Access::read_write);
  std::memset(bytes.data(), 0, head);
  reinterpret_cast<ParcelHeader*>(bytes.data())->tickets = count;
  without_gil_if(content.size() >= kLong,
                 [&] { std::memcpy(bytes.data() + head, content.data(), content.size()); });
  if (count == 0) return parcel;
  auto* records = reinterpret_cast<ParcelRecord*>(bytes.data() + sizeof(ParcelHeader));
  std::vector<TicketRecord*> places(count);
  for (std::size_t i = 0; i < count; ++i) places[i] = &records[i].ticket;
  parcel.set_contents({.kind = TicketContents::Kind::message,
                       .stride = sizeof(ParcelRecord),
                       .first = sizeof(ParcelHeader),
                       .count = static_cast<std::uint32_t>(count)});
  scope->issue_into(places);
  return parcel;
}

// If a ticket is live, the reader stopped in the middle: the manager cancels it.
IncomingParcel::~IncomingParcel() {
  try {
    const SessionMemory& memory = block_->arena->memory();
    const std::vector<NamedTicket> named = tickets();
    const bool consumed =
        !bytes_.empty() && std::none_of(named.begin(), named.end(), [&](const NamedTicket& one) {
          return memory.transit(one.ticket.sender)
              .is_live(one.ticket, one.arena, one.block, one.generation);
        });
    if (consumed) block_.set_contents({});
  } catch (const std::exception&) {
    // Memory or address space is short, so it is not known whether a ticket is live.
  }
}

std::span<const std::byte> IncomingParcel::content() {
  bytes_ = bytes_of(block_->arena, block_->number, Access::read_write);
  if (bytes_.size() < sizeof(ParcelHeader)) throw StaleHandle("a message of a queue is damaged");
  const std::size_t head = sizeof(ParcelHeader) + records().size_bytes();
  return bytes_.subspan(head);
}

std::span<const ParcelRecord> IncomingParcel::records() const noexcept {
  if (bytes_.size() < sizeof(ParcelHeader)) return {};
  const std::uint64_t count =
      std::min<std::uint64_t>(reinterpret_cast<const ParcelHeader*>(bytes_.data())->tickets,
                              (bytes_.size() - sizeof(ParcelHeader)) / sizeof(ParcelRecord));
  return {reinterpret_cast<const ParcelRecord*>(bytes_.data() + sizeof(ParcelHeader)), count};
}

std::vector<NamedTicket> IncomingParcel::tickets() const {
  std::vector<NamedTicket> found;
  for (const ParcelRecord& record : records()) {
    const std::optional<NamedTicket> named = record.ticket.read();
    // A handle refers to its record by the number.
    found.push_back(
        named && named->ticket.sender < kMaxSlots ? *named : NamedTicket{.ticket = {.sender = 0}});
  }
  return found;
}

}  // namespace shmtensor::python
