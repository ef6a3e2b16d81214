#include "bindings/transfer/queued_tickets.hpp"

#include <algorithm>

namespace shmtensor::python {
namespace {

// How many blocks are on their way from another processor's cache at the same time.
constexpr std::size_t kTogether = 32;

}  // namespace

RecordNumber QueuedTickets::add(Arena& arena, BlockNumber block, Generation generation) {
  queued_.push_back({PinnedArena(arena), block, generation, std::nullopt});
  LocalTable::Lock lock(arena.local(), block);
  lock.set_count(lock.count() + 1);  // the tensor that is sent has one
  return static_cast<RecordNumber>(queued_.size() - 1);
}

void QueuedTickets::issue_into(std::span<TicketRecord* const> records) {
  for (std::size_t begin = 0; begin < queued_.size(); begin += kTogether) {
    const std::size_t end = std::min(begin + kTogether, queued_.size());
    const std::span some(queued_.begin() + static_cast<std::ptrdiff_t>(begin), end - begin);
    for (const Queued& one : some) one.arena->prefetch_send(one.block);
    for (const Queued& one : some) one.arena->prefetch_ticket(one.block);
    for (std::size_t i = begin; i < end; ++i) {
      Queued& one = queued_[i];
      one.ticket = one.arena->send(one.block, *records[i]);
      bytes_ += one.arena->size(one.block);
      one.arena->release(one.block);
    }
  }
}

void QueuedTickets::delivered() noexcept {
  // A forked child must not change the arenas' pins.
  if (!origin_.is_this_process()) {
    for (Queued& one : queued_) one.arena.forget();
  }
  queued_.clear();
}

bool QueuedTickets::discard() noexcept {
  const bool ours = origin_.is_this_process();
  if (ours) {
    for (const Queued& one : queued_) {
      if (one.ticket) {
        one.arena->cancel_send(one.block, one.generation, *one.ticket);
      } else {
        one.arena->release(one.block);
      }
    }
  }
  delivered();
  return ours;
}

}  // namespace shmtensor::python
