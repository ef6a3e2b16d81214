#include "os/same_user.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "os/unix_socket.hpp"

#if !defined(SYS_pidfd_send_signal)
#define SYS_pidfd_send_signal 424
#endif

namespace shmtensor {
namespace {

constexpr std::uint64_t kUids = 0xffffffff;  // the last number means none
constexpr uid_t kUsualOverflow = 65'534;

// Returns an empty string if the file cannot be read. The first stream of a process would take
// longer than all else that it does to join a session.
std::string text_of(const char* path) {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> piece;
  ssize_t size = 0;
  while (file && (size = ::read(file.get(), piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
  return text;
}

// Removes the next number of the text, and everything before it, from the text. Returns false if
// there is none.
bool take_number(std::string_view& text, std::uint64_t& number) noexcept {
  const std::size_t start = text.find_first_not_of(" \n");
  if (start == std::string_view::npos) return false;
  text.remove_prefix(start);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

uid_t overflow_uid() {
  const std::string text = text_of("/proc/sys/kernel/overflowuid");
  std::string_view rest = text;
  std::uint64_t uid = 0;
  return take_number(rest, uid) ? static_cast<uid_t>(uid) : kUsualOverflow;
}

}  // namespace

// The ranges do not overlap, inside or outside the namespace, so their sizes can be added.
bool maps_every_uid(std::string_view uid_map) noexcept {
  std::uint64_t mapped = 0;
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (take_number(uid_map, inside) && take_number(uid_map, outside) &&
         take_number(uid_map, count)) {
    mapped += count;
  }
  return mapped == kUids;
}

bool uid_is_ambiguous() noexcept {
  try {
    return ::geteuid() == overflow_uid() && !maps_every_uid(text_of("/proc/self/uid_map"));
  } catch (...) {
    return true;
  }
}

// Only the owner may set the mode of a file, even to its present value. O_NOATIME has the same
// rule, but another process with the same open file may have set it before.
bool owns_file(const Fd& file) noexcept {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || info.st_uid != ::geteuid()) return false;
  return !uid_is_ambiguous() || ::fchmod(file.get(), info.st_mode & 07777) == 0;
}

// Checks whether this process may send a signal to the peer itself, not to a process that reuses
// its pid.
PeerUser user_of_peer(const Fd& socket) {
  if (peer_credentials(socket).uid != ::geteuid()) return PeerUser::other;
  if (!uid_is_ambiguous()) return PeerUser::same;
  const Fd process = peer_pidfd(socket);
  if (!process) {
    if (is_shortage(errno)) throw_os("open a pidfd for the peer of a socket");
    return errno == ENOPROTOOPT ? PeerUser::unknown : PeerUser::ended;
  }
  if (::syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0) == 0) return PeerUser::same;
  if (errno == EPERM) return PeerUser::other;
  return errno == ESRCH ? PeerUser::ended : PeerUser::unknown;
}

}  // namespace shmtensor
