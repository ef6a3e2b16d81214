// The two ends of an anonymous pipe.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/error.hpp"
#include "os/fd.hpp"

namespace shmtensor::testing {

struct MessageEnds {
  Fd reader;
  Fd writer;

  static MessageEnds of_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_os("create a pipe");
    return {Fd(ends[0]), Fd(ends[1])};
  }
};

}  // namespace shmtensor::testing
