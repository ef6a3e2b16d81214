#include "bindings/channel/incoming_tensors.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "bindings/transfer/send_receive.hpp"

namespace shmtensor::python {
namespace {

// How many blocks are on their way from another processor's cache while one is received.
constexpr std::size_t kAhead = 16;

}  // namespace

IncomingTensors::IncomingTensors(Session& session, std::span<const NamedTicket> tickets,
                                 bool shared) noexcept
    : session_(session), tickets_(tickets), shared_(shared) {
  if (!tickets.empty()) arena_ = session.find(tickets.front().arena);
}

py::object IncomingTensors::next(std::uint8_t strategy, Access access) {
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
void IncomingTensors::fetch_ahead() noexcept {
  for (const std::size_t end = std::min(next_ + kAhead, tickets_.size()); fetched_ < end;
       ++fetched_) {
    const NamedTicket& named = tickets_[fetched_];
    if (arena_ && arena_->segment().number() == named.arena) arena_->prefetch_hold(named);
  }
}

}  // namespace shmtensor::python
