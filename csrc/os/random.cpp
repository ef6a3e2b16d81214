#include "os/random.hpp"

#include <sys/random.h>

#include <cerrno>

#include "base/error.hpp"

namespace shmtensor {

std::uint64_t random_word() {
  std::uint64_t word = 0;
  while (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) {
    if (errno != EINTR) throw_os("read random bytes");
  }
  return word;
}

}  // namespace shmtensor
