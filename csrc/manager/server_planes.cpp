// Retires the planes of holder and sender bits that no process uses any more.
#include <bit>

#include "base/error.hpp"
#include "manager/server.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {
namespace {

// No event reports that the last message of a dead process was read.
constexpr std::uint64_t kPlaneIntervalMilliseconds = 5'000;

}  // namespace

// No process misses anything in a plane that is retired:
// - Holders: a slot is swept in all arenas before it is free, and this thread assigns the slots. So
//   the next process of the plane gets its slot after this, and announces the plane before its
//   first bit.
// - Tickets: none is issued in the table of a slot without a process. The process that claimed the
//   last one had set its own bit before, and the one that cancelled it tries to free the block.
// - A process that has read the planes before this reads pages that exist and bits that are 0, and
//   reads the planes again after the tickets. A sender bit that stays costs others a search.
// - A process that prepares a fork for longer than a new manager waits may set bits of a slot that
//   was cancelled; the next sweep of the slot clears them, also in a retired plane.
void Server::retire_planes() {
  const std::uint64_t now = coarse_milliseconds();
  if (!planes_check_at_ || now < *planes_check_at_) return;
  planes_check_at_.reset();
  std::uint32_t left = 0;
  registry_.for_each([&left](const Segment& arena) { left |= arena.planes(); });
  left &= ~slots_->planes_in_use();
  std::uint32_t quiet = 0;
  for (; left != 0; left &= left - 1) {
    const auto plane = static_cast<std::uint32_t>(std::countr_zero(left));
    if (is_quiet(plane)) {
      quiet |= 1u << plane;
    } else {
      planes_check_at_ = now + kPlaneIntervalMilliseconds;
    }
  }
  if (quiet == 0) return;
  registry_.for_each([quiet](const Segment& arena) {
    if ((arena.planes() & quiet) == 0) return;
    SHMTENSOR_FAULT_POINT("manager.unused_plane");
    arena.retire_planes(quiet);
  });
}

bool Server::is_quiet(std::uint32_t plane) const noexcept {
  try {
    return !slots_->has_unread_in_plane(plane);
  } catch (const Error&) {
    return false;  // address space is too short to read a ticket table
  }
}

}  // namespace shmtensor
