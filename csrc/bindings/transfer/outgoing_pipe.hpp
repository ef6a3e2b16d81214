// A pipe into which this process sends messages.
#pragma once

#include <atomic>
#include <cstdint>

#include "arena/session_memory.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Belongs to the object that has the pipe open, a Connection or a queue, as long as that does. A
/// forked child inherits both.
///
/// The first ticket for a message in the pipe makes the session's manager watch it, before the
/// ticket is issued, so that the message is cancelled if the pipe loses its readers. A manager that
/// takes over is notified by the next ticket. All other tickets cost a few loads.
/// Threads: all members may be called simultaneously.
class OutgoingPipe {
 public:
  explicit OutgoingPipe(int descriptor) noexcept : descriptor_(descriptor) {}

  /// Returns the number for tickets of messages in this pipe; 0 if it cannot be watched.
  [[nodiscard]] std::uint32_t number_for(const SessionMemory& session) noexcept {
    if (watched_by_.load(std::memory_order_relaxed) != manager_of(session) ||
        session.manager_changed()) {
      watch(session);
    }
    return number_.load(std::memory_order_relaxed);
  }

 private:
  /// Different for each manager of each session: ids of sessions are random.
  static std::uint64_t manager_of(const SessionMemory& session) noexcept {
    return session.id().low + session.header().manager_starts.load(std::memory_order_relaxed);
  }
  void watch(const SessionMemory& memory) noexcept;

  const int descriptor_;
  std::atomic<std::uint32_t> number_{0};
  std::atomic<std::uint64_t> watched_by_{0};
};

void add_outgoing_pipe(py::module_& module);

}  // namespace shmtensor::python
