#include "os/fault_point.hpp"

#if defined(SHMTENSOR_FAULT_POINTS)
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/atomic.hpp"

namespace shmtensor {
namespace {

// Each kill removes one file, so that a test can count the kills.
bool take_token() noexcept {
  const char* folder = std::getenv("SHMTENSOR_FAULT_TOKENS");
  if (folder == nullptr) return true;
  char path[512];
  for (int i = 0; i < 10; ++i) {
    std::snprintf(path, sizeof path, "%s/%d", folder, i);
    if (unlink(path) == 0) return true;
  }
  return false;
}

}  // namespace

void fault_point(const char* name) noexcept {
  // Read at each pass: a forked child may receive different settings through the environment.
  const char* order = std::getenv("SHMTENSOR_FAULT");
  if (order == nullptr) return;
  const char* colon = std::strchr(order, ':');
  const std::size_t length =
      colon != nullptr ? static_cast<std::size_t>(colon - order) : std::strlen(order);
  if (std::strlen(name) != length || std::strncmp(name, order, length) != 0) return;
  static Atomic<long> passes{0};
  const long wanted = colon != nullptr ? std::strtol(colon + 1, nullptr, 10) : 1;
  if (passes.fetch_add(1, std::memory_order_relaxed) + 1 == wanted && take_token()) {
    const char* number = std::getenv("SHMTENSOR_FAULT_SIGNAL");
    kill(getpid(), number != nullptr ? std::atoi(number) : SIGKILL);
  }
}

}  // namespace shmtensor
#endif
