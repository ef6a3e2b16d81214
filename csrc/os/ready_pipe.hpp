// A pipe by which processes show one another that something is ready.
#pragma once

#include <cstdint>

#include "os/fd.hpp"

namespace shmtensor {

/// An anonymous pipe that every process has open at both ends, by one descriptor: the descriptor is
/// readable, in all of them, from `raise` until `lower`.
///
/// Threads, processes: all members but moves may be called simultaneously.
class ReadyPipe {
 public:
  ReadyPipe() noexcept = default;
  /// Makes a pipe, which is not raised. Throws OsError.
  [[nodiscard]] static ReadyPipe create();
  /// A pipe that another process has sent. Throws OsError.
  explicit ReadyPipe(Fd descriptor);
  ReadyPipe(ReadyPipe&& other) noexcept = default;
  ReadyPipe& operator=(ReadyPipe&& other) noexcept;
  ~ReadyPipe() { forget_if_closed(); }

  /// The same in every process; 0 if this object is empty.
  [[nodiscard]] std::uint32_t number() const noexcept { return descriptor_ ? number_ : 0; }
  [[nodiscard]] const Fd& descriptor() const noexcept { return descriptor_; }
  /// Return false if the program closed the descriptor, as daemons do: see Fd::still_is.
  [[nodiscard]] bool is_open() const noexcept { return descriptor_.still_is(identity_); }

  /// These do nothing if the pipe is not open.
  void raise() const noexcept;
  void lower() const noexcept;
  [[nodiscard]] bool is_raised() const noexcept;

 private:
  void forget_if_closed() noexcept;

  Fd descriptor_;
  FileIdentity identity_;
  std::uint32_t number_ = 0;
};

}  // namespace shmtensor
