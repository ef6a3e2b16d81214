#include "os/poller.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "base/error.hpp"

namespace shmtensor {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_os("create an epoll instance");
}

void Poller::add(const Fd& fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0)
    throw_os("watch a descriptor");
}

void Poller::remove(const Fd& fd) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

const std::vector<std::uint64_t>& Poller::wait(int milliseconds) {
  std::array<epoll_event, 64> events{};
  ready_.clear();
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), milliseconds);
  if (count < 0 && errno != EINTR) throw_os("wait for descriptors");
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;  // not aligned
    ready_.push_back(tag);
  }
  return ready_;
}

}  // namespace shmtensor
