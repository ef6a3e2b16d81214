// Determines whether any process can still read an anonymous pipe, without keeping an end of it
// open.
#pragma once

#include <cstdint>

#include "os/fd.hpp"

namespace shmtensor {

/// Returns the number of an anonymous pipe, which is the same in every process: its inode number.
/// Returns 0 for any other file, and for a named pipe, which may get a reader later.
[[nodiscard]] std::uint32_t pipe_number(int descriptor) noexcept;

/// Opens the pipe with that number as a location (O_PATH): the result is neither a reading nor a
/// writing end, so readers still get EOF, and writers EPIPE. Returns an empty Fd if the descriptor
/// is not such a pipe, or /proc is not available.
[[nodiscard]] Fd open_pipe_location(int descriptor, std::uint32_t number) noexcept;

/// Return true if the descriptor could have been opened by `open_pipe_location`.
[[nodiscard]] bool is_pipe_location(const Fd& location, std::uint32_t number) noexcept;

/// Return false if no reading end of the pipe is open in any process, nor on its way in a message
/// of a socket: then no process can read the pipe any more. Also true if that cannot be determined.
///
/// The pipe is opened for writing for some microseconds. A reader that finds the pipe empty in that
/// time waits, or gets EAGAIN, as if a writer were left; it is woken when the descriptor is closed.
[[nodiscard]] bool may_have_reader(const Fd& location) noexcept;

}  // namespace shmtensor
