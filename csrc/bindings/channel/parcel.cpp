#include "bindings/channel/parcel.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>

#include "base/error.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/transfer/send_receive.hpp"

namespace shmtensor::python {
namespace {

// How many blocks are on their way from another processor's cache while one is received.
constexpr std::size_t kAhead = 16;

}  // namespace

// The records are cleared before the block is declared to contain them, and each is written before
// its ticket is issued: if this process is killed, the manager cancels those that were issued.
HeldBlock make_parcel(Session& session, std::span<const std::byte> content,
                      QueuedTickets& tickets) {
  const std::size_t count = tickets.size();
  const std::size_t head = sizeof(ParcelHeader) + count * sizeof(ParcelRecord);
  const std::uint64_t size = head + content.size();
  HeldBlock parcel(allocate_block(session, size, Strategy::file_descriptor));
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
  tickets.issue_into(places);
  return parcel;
}

// If a ticket is live, the reader stopped in the middle: the manager cancels it, as it cancels
// those of a shared parcel after the last reader.
IncomingParcel::~IncomingParcel() {
  if (shared_) return;
  try {
    const SessionMemory& memory = block_->arena->memory();
    const bool consumed =
        !bytes_.empty() && std::ranges::none_of(tickets_, [&](const NamedTicket& named) {
          return memory.transit(named.ticket.sender).is_live(named);
        });
    if (consumed) block_.set_contents({});
  } catch (const std::exception&) {
    // Address space is short, so it is not known whether a ticket is live.
  }
}

std::span<const std::byte> IncomingParcel::content() {
  const std::span<std::byte> bytes = bytes_of(block_->arena, block_->number, Access::read_write);
  if (bytes.size() < sizeof(ParcelHeader)) throw StaleHandle("a message of a queue is damaged");
  const std::size_t count =
      std::min<std::uint64_t>(reinterpret_cast<const ParcelHeader*>(bytes.data())->tickets,
                              (bytes.size() - sizeof(ParcelHeader)) / sizeof(ParcelRecord));
  const std::span records(
      reinterpret_cast<const ParcelRecord*>(bytes.data() + sizeof(ParcelHeader)), count);
  tickets_.reserve(count);
  bytes_ = bytes;  // only now: the destructor relies on the tickets being complete
  for (const ParcelRecord& record : records) {
    const std::optional<NamedTicket> named = record.ticket.read();
    // A handle refers to its record by the number.
    tickets_.push_back(
        named && named->ticket.sender < kMaxSlots ? *named : NamedTicket{.ticket = {.sender = 0}});
  }
  if (!tickets_.empty()) arena_ = session_.find(tickets_.front().arena);
  return bytes.subspan(sizeof(ParcelHeader) + records.size_bytes());
}

py::object IncomingParcel::next_storage(std::uint8_t strategy, Access access) {
  if (next_ == tickets_.size()) throw StaleHandle("a message of a queue is damaged");
  fetch_ahead();
  const NamedTicket& named = tickets_[next_++];
  TensorReference reference{.session = session_.id(),
                            .arena = named.arena,
                            .block = named.block,
                            .generation = named.generation,
                            .strategy = static_cast<Strategy>(strategy),
                            .access = access == Access::read_only ? access : Access::read_write,
                            .ticket = named.ticket,
                            .view = {}};
  if (shared_) reference.ticket = NoTicket();
  return receive_storage(session_, reference, arena_);
}

// Of blocks in the arena of the last one, which mostly is that of all.
void IncomingParcel::fetch_ahead() noexcept {
  for (const std::size_t end = std::min(next_ + kAhead, tickets_.size()); fetched_ < end;
       ++fetched_) {
    const NamedTicket& named = tickets_[fetched_];
    if (arena_ && arena_->segment().number() == named.arena) arena_->prefetch_hold(named);
  }
}

}  // namespace shmtensor::python
