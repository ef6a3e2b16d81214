// The exceptions of the core. Each message says what was tried, on what, what the system answered
// and what to do. The bindings translate them once, by type.
#pragma once

#include <stdexcept>
#include <string>

namespace shmtensor {

/// Anything that goes wrong in shmtensor and is not one of the more telling types below.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A system call failed.
class OsError : public Error {
 public:
  OsError(int code, const std::string& what) : Error(what), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Shared memory is exhausted: a quota, a full tmpfs, a cgroup limit, the machine.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// A handle names a block that is gone, never was, or was tampered with.
class StaleHandle : public Error {
 public:
  using Error::Error;
};

/// The session's manager cannot be reached, started or understood.
class SessionError : public Error {
 public:
  using Error::Error;
};

/// A shared list or dict is not what it should be.
class CorruptData : public Error {
 public:
  using Error::Error;
};

/// Throws OsError with `errno`'s text, or `code`'s when given: "cannot <what>: <text> (<NAME>)".
[[noreturn]] void throw_os(const std::string& what, int code = 0);

/// Is it descriptors or memory that are short? Then what was looked for may well be there.
[[nodiscard]] bool is_shortage(int code) noexcept;

/// The text for an errno value, as in "No such file or directory (ENOENT)".
[[nodiscard]] std::string errno_text(int code);

}  // namespace shmtensor
