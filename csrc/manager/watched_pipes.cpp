#include "manager/watched_pipes.hpp"

#include <algorithm>
#include <utility>

#include "os/limits.hpp"
#include "os/pipe_readers.hpp"

namespace shmtensor {

// The other descriptors are for connections and arenas.
std::size_t WatchedPipes::limit() {
  return std::min<std::size_t>(kMost, static_cast<std::size_t>(descriptor_limit() / 4));
}

void WatchedPipes::add(std::uint32_t number, Fd location, std::uint64_t now) {
  if (!is_pipe_location(location, number)) return;  // an end of the pipe would hold up EOF or EPIPE
  if (number == 0 || pipes_.size() >= most_) return;
  if (pipes_.empty()) next_check_ = now + kIntervalMilliseconds;
  pipes_.try_emplace(number, Pipe{std::move(location), {}});
}

std::vector<std::uint32_t> WatchedPipes::check(std::uint64_t now) {
  std::vector<std::uint32_t> unread;
  next_check_ = now + kIntervalMilliseconds;
  for (auto at = pipes_.begin(); at != pipes_.end();) {
    Pipe& pipe = at->second;
    if (may_have_reader(pipe.location)) {
      pipe.unreadable_since.reset();
      ++at;
      continue;
    }
    if (!pipe.unreadable_since) pipe.unreadable_since = now;
    const std::uint64_t end = *pipe.unreadable_since + kGraceMilliseconds;
    if (now < end) {
      next_check_ = std::min(next_check_, end);
      ++at;
      continue;
    }
    unread.push_back(at->first);
    at = pipes_.erase(at);
  }
  std::ranges::sort(unread);
  return unread;
}

std::optional<std::uint64_t> WatchedPipes::next_check() const noexcept {
  return pipes_.empty() ? std::nullopt : std::optional(next_check_);
}

}  // namespace shmtensor
