#include "os/robust_word.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fault_point.hpp"

namespace shmtensor {

std::uint32_t this_thread_id() noexcept {
  return static_cast<std::uint32_t>(::syscall(SYS_gettid));
}

bool claim_robust(Atomic<std::uint32_t>& word) noexcept {
  // The list has one entry. The kernel adds the offset to the address of the entry to find the
  // word.
  static thread_local robust_list entry{};
  static thread_local robust_list_head head{};
  head.list.next = &entry;
  entry.next = &head.list;
  head.futex_offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&entry);
  head.list_op_pending = nullptr;
  // The order matters: a thread that is killed between the two steps leaves a word without its id.
  if (::syscall(SYS_set_robust_list, &head, sizeof head) != 0) return false;
  SHMTENSOR_FAULT_POINT("manager.claim");
  word.store(this_thread_id() | FUTEX_WAITERS);  // without it, the kernel wakes no thread
  return true;
}

}  // namespace shmtensor
