#include "sync/repair.hpp"

#include "queue/owner_lock.hpp"
#include "sync/barrier.hpp"
#include "sync/condition.hpp"
#include "sync/event.hpp"
#include "sync/layout.hpp"
#include "sync/lock.hpp"
#include "sync/semaphore.hpp"

namespace shmtensor::sync {

void repair(std::span<std::byte> block, const SessionMemory& memory, const SlotSet& dead) {
  const auto pid_of = [&](std::uint32_t slot) {
    return memory.slot(static_cast<SlotNumber>(slot)).pid.load();
  };
  if (auto* const words = words_in<LockWords>(block)) {
    OwnerLock lock(words->owner);
    const std::uint32_t owner = lock.owner();
    if (dead.has(owner)) Lock::abandon(*words, pid_of(owner));
    lock.wake_waiters();
  } else if (words_in<SemaphoreWords>(block) != nullptr) {
    Semaphore(block).repair(dead);
  } else if (words_in<EventWords>(block) != nullptr) {
    Event(block).repair();
  } else if (words_in<ConditionWords>(block) != nullptr) {
    Condition(block).repair(dead);
  } else if (words_in<BarrierWords>(block) != nullptr) {
    Barrier(block).repair(dead, pid_of);
  }
}

}  // namespace shmtensor::sync
