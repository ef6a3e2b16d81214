// Errors that a later call raises.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <atomic>
#include <exception>
#include <memory>

namespace shmtensor::python {

/// The errors of messages that were taken after others, which were returned to the caller. Without
/// a lock: a forked child would inherit one of a thread that it does not have.
/// Threads: all members may be called simultaneously, with the GIL.
class LateErrors {
 public:
  LateErrors() noexcept = default;
  ~LateErrors() {
    for (const Error* next = first_.load(); next != nullptr;) {
      const std::unique_ptr<const Error> error(next);
      next = error->next;
    }
  }
  LateErrors(const LateErrors&) = delete;
  LateErrors& operator=(const LateErrors&) = delete;

  /// Keeps the exception that is being handled.
  void add() { push(new Error{std::current_exception()}); }
  /// Throws one of the errors, if there are any.
  void raise() {
    if (first_.load() == nullptr) return;
    const std::unique_ptr<Error> error(first_.exchange(nullptr));
    if (error == nullptr) return;
    for (Error* next = error->next; next != nullptr;) {
      Error* const other = next;
      next = other->next;
      push(other);
    }
    std::rethrow_exception(error->exception);
  }

 private:
  struct Error {
    std::exception_ptr exception;
    Error* next = nullptr;
  };

  void push(Error* error) noexcept {
    error->next = first_.load();
    while (!first_.compare_exchange_weak(error->next, error)) {
    }
  }

  std::atomic<Error*> first_{nullptr};
};

}  // namespace shmtensor::python
