// The two ends through which a test sends: an anonymous pipe, or a socket pair.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
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
  static MessageEnds of_sockets() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw_os("create a socket pair");
    }
    return {Fd(ends[0]), Fd(ends[1])};
  }
};

}  // namespace shmtensor::testing
