// An owned file descriptor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

namespace shmtensor {

/// Which file a descriptor refers to, whatever its number.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Owns one descriptor and closes it. Move-only.
/// Threads: as a plain value; share it only behind a lock.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept;

  /// A second, close-on-exec descriptor of the same open file.
  [[nodiscard]] Fd duplicate() const;

  [[nodiscard]] FileIdentity identity() const;

  /// False when somebody closed the number behind our back and it now means another file
  /// (`os.closerange`, as daemons do). Such an Fd must be `release`d, never used or closed.
  [[nodiscard]] bool still_is(const FileIdentity& identity) const noexcept;

 private:
  int number_ = -1;
};

}  // namespace shmtensor
