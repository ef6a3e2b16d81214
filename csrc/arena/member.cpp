#include "arena/member.hpp"

#include <memory>
#include <utility>

#include "base/error.hpp"
#include "os/mutex.hpp"

namespace shmtensor {

TransitWriter& Member::writer() const {
  TransitWriter* writer = writer_.load(std::memory_order_acquire);
  if (writer == nullptr) {
    auto made = std::make_unique<TransitWriter>(memory_, slot_);
    if (writer_.compare_exchange_strong(writer, made.get())) writer = made.release();
  }
  return *writer;
}

// The lock is held until `unlock_after_fork`, which the analysis cannot follow.
void Member::lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS {
  locked_for_fork_ = writer_.load();
  if (locked_for_fork_ != nullptr) locked_for_fork_->lock().lock();
}

void Member::unlock_after_fork() noexcept NO_THREAD_SAFETY_ANALYSIS {
  if (locked_for_fork_ != nullptr) locked_for_fork_->lock().unlock();
}

// The parent's writer is not destroyed: a thread that does not exist in the child may have been
// using it.
void Member::become(SlotNumber slot, std::string why_none) noexcept {
  slot_ = slot;
  why_no_slot_ = std::move(why_none);
  writer_.store(nullptr);
}

void Member::throw_no_slot() const {
  refuse_in_raw_copy();
  throw SessionError("this process was forked without a slot in the session (" + why_no_slot_ +
                     "); it cannot use the tensors that it inherited");
}

}  // namespace shmtensor
