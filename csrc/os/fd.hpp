// An owned file descriptor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

namespace shmtensor {

/// Identifies the file that a descriptor refers to, independent of the descriptor's number.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Owns one descriptor and closes it. Move-only.
/// Threads: one; to share an object, protect it with a lock.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int number) noexcept : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept;

  /// Returns another close-on-exec descriptor of the same open file.
  [[nodiscard]] Fd duplicate() const;

  [[nodiscard]] FileIdentity identity() const;

  /// Return false if other code closed the descriptor (`os.closerange`, as daemons do) and its
  /// number now refers to another file. Such an Fd must be `release`d, and neither used nor closed.
  [[nodiscard]] bool still_is(const FileIdentity& identity) const noexcept;

 private:
  int number_ = -1;
};

/// Return true if a read would not wait, or the peer of a socket has closed its end.
[[nodiscard]] bool is_readable(const Fd& fd) noexcept;

}  // namespace shmtensor
