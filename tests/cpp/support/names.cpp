#include "support/names.hpp"

#include "arena/segment.hpp"
#include "os/random.hpp"

namespace shmtensor::testing {
namespace {

std::uint64_t run() {
  static const std::uint64_t tag = random_word();
  return tag;
}

}  // namespace

SessionId fresh_session() { return {run(), random_word()}; }

std::string run_prefix() { return object_name({run(), 0}).substr(0, 10 + 16); }

}  // namespace shmtensor::testing
