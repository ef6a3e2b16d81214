#include "cuda/awaited_events.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic.hpp"
#include "os/clock.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

// Not in the list, which is allocated for the first event.
Atomic<std::size_t> g_count{0};

}  // namespace

// Events are queried under the mutex, so that none is destroyed meanwhile; a query takes about a
// microsecond.
struct AwaitedEvents {
  Atomic<std::uint64_t> last{0};  // number of the newest
  Mutex mutex;
  std::vector<AwaitedEvent*> all GUARDED_BY(mutex);
  std::uint64_t asked GUARDED_BY(mutex) = 0;  // when /proc was read, in nanoseconds

  static AwaitedEvents& get() {
    static auto* const made = new AwaitedEvents;
    return *made;
  }

  void add(AwaitedEvent* event) {
    const LockGuard guard(mutex);
    if (event->number_ != 0) return;
    all.push_back(event);
    event->number_ = last.load() + 1;
    last.store(event->number_);
    g_count.store(all.size());
  }

  void remove(AwaitedEvent* event) {
    const LockGuard guard(mutex);
    std::erase(all, event);
    g_count.store(all.size());
  }

  bool are_done(const Gpu& gpu, std::uint64_t newest) {
    const LockGuard guard(mutex);
    return std::ranges::all_of(all, [&](const AwaitedEvent* one) {
      return one->number_ > newest || &one->event_.gpu() != &gpu || one->event_.is_done();
    });
  }

  // The pid of the process whose work a device waits for without end, or 0.
  pid_t ended_maker(const Gpu& gpu) {
    constexpr std::uint64_t kAskAgain = 10'000'000;
    const LockGuard guard(mutex);
    const std::uint64_t now = monotonic_nanoseconds();
    const bool ask = now - asked >= kAskAgain;
    if (ask) asked = now;
    std::vector<ProcessIdentity> running;
    pid_t ended = 0;
    for (AwaitedEvent* const one : all) {
      if (ask) one->stuck_ = is_stuck(*one, running);
      if (one->stuck_ && &one->event_.gpu() == &gpu) ended = one->maker_.process.pid;
    }
    return ended;
  }

 private:
  // Asks each process once.
  static bool is_stuck(const AwaitedEvent& one, std::vector<ProcessIdentity>& running) {
    const ProcessIdentity& maker = one.maker_.process;
    if (std::ranges::find(running, maker) != running.end() || one.event_.is_done()) return false;
    if (!one.maker_.has_ended()) {
      running.push_back(maker);
      return false;
    }
    return !one.event_.is_done();  // it may have completed between the two queries
  }
};

bool AwaitedEvent::start() {
  if (maker_.process.pid == 0) return false;
  refuse_after_fork();  // another thread may have held the mutex
  AwaitedEvents::get().add(this);
  return true;
}

AwaitedEvent::~AwaitedEvent() {
  if (number_ != 0 && !forked()) AwaitedEvents::get().remove(this);
}

bool any_awaited() noexcept { return g_count.load() != 0; }

void refuse_stuck(const Gpu& gpu) {
  if (!any_awaited()) return;
  const pid_t ended = AwaitedEvents::get().ended_maker(gpu);
  if (ended == 0) return;
  throw ProducerGone(kNotReady,
                     "cannot use cuda:" + std::to_string(gpu.number()) +
                         ": its default stream waits for work of process " + std::to_string(ended) +
                         ", which has ended before the work was complete, and never continues; "
                         "restart this process, or send with st.cuda.set_sync(\"host\")");
}

void poll_until(const Gpu& gpu, const std::function<bool()>& is_done) {
  const std::uint64_t start = monotonic_nanoseconds();
  while (!is_done()) {
    refuse_stuck(gpu);
    // A longer wait is polled less often: it takes about an eighth longer than the work.
    const std::uint64_t waited = monotonic_nanoseconds() - start;
    const auto pause = std::clamp<std::uint64_t>(waited / 8, 20'000, 2'000'000);
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
  }
}

// The driver's wait, which follows, includes what other threads let the stream wait for until then.
void wait_for_awaited(const Gpu& gpu) {
  if (!any_awaited()) return;
  constexpr int kRounds = 16;
  AwaitedEvents& here = AwaitedEvents::get();
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t newest = here.last.load();
    poll_until(gpu, [&] { return here.are_done(gpu, newest); });
    if (here.last.load() == newest) return;
  }
}

}  // namespace shmtensor::cuda
