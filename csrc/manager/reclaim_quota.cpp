#include "manager/reclaim_quota.hpp"

#include <algorithm>

#include "os/mapping.hpp"
#include "os/page_reservation.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kStep = 16 * kMiB;
constexpr std::uint64_t kLook = 64 * kKiB;  // the cost of a step over a range without pages

}  // namespace

bool ReclaimQuota::discard(const Fd& file, std::uint64_t& at, std::uint64_t end) {
  while (at < end && left_ != 0) {
    // A page that two steps share would not be released by either.
    const std::uint64_t next = std::min(align_down(at, page_size()) + kStep, end);
    const std::uint64_t before = file_usage(file);
    discard_pages(file, at, next - at);
    const std::uint64_t freed = before - std::min(before, file_usage(file));
    left_ -= std::min(left_, freed + kLook);
    at = next;
  }
  return at >= end;
}

}  // namespace shmtensor
