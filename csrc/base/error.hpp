// The exceptions of the core. Each message states what was tried, on what, what the system reported
// and what to do. The bindings translate the exceptions by type, in one place.
#pragma once

#include <stdexcept>
#include <string>

namespace shmtensor {

/// The base class; thrown itself for errors that have no class of their own.
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

/// No shared memory is available: a quota, a full tmpfs, a cgroup limit or the machine is
/// exhausted.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// A handle refers to a block that was freed or never existed, or the handle was modified.
class StaleHandle : public Error {
 public:
  using Error::Error;
};

/// The session's manager cannot be reached or started, or its reply is invalid.
class SessionError : public Error {
 public:
  using Error::Error;
};

/// The session's manager belongs to another user, or may belong to one.
class ForeignSession : public SessionError {
 public:
  using SessionError::SessionError;
};

/// The memory of a shared list or dict does not hold a valid list or dict.
class CorruptData : public Error {
 public:
  using Error::Error;
};

/// Throws OsError with the text of `errno`, or of `code` if given: "cannot <what>: <text>
/// (<NAME>)".
[[noreturn]] void throw_os(const std::string& what, int code = 0);

/// Return true if the errno value means that descriptors or memory ran out. Then a failed lookup
/// does not prove that the object is absent.
[[nodiscard]] bool is_shortage(int code) noexcept;

/// Returns the text of an errno value, as in "No such file or directory (ENOENT)".
[[nodiscard]] std::string errno_text(int code);

}  // namespace shmtensor
