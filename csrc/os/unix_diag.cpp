#include "os/unix_diag.hpp"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/align.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kAnyCookie = ~std::uint64_t{0};

struct Request {
  nlmsghdr header;
  unix_diag_req body;
};

std::uint32_t inode_of(int socket) noexcept {
  struct stat info{};
  const bool found = ::fstat(socket, &info) == 0 && S_ISSOCK(info.st_mode);
  return found ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

template <typename T>
T read_at(const std::byte* bytes) noexcept {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

UnixDiag::UnixDiag(const Fd& known) noexcept
    : socket_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {
  works_ = socket_ && ask(inode_of(known.get()), kAnyCookie).error == 0;
}

std::optional<UnixSocketId> UnixDiag::peer_of(int descriptor) noexcept {
  const std::uint32_t inode = works_ ? inode_of(descriptor) : 0;
  if (inode == 0) return std::nullopt;
  const Answer own = ask(inode, kAnyCookie);
  if (own.error != 0 || own.peer == 0) return std::nullopt;
  const Answer peer = ask(own.peer, kAnyCookie);
  if (peer.error != 0 || peer.peer != inode) return std::nullopt;
  return UnixSocketId{own.peer, peer.cookie};
}

bool UnixDiag::is_closed(const UnixSocketId& socket) noexcept {
  if (!works_) return false;
  const int error = ask(socket.inode, socket.cookie).error;
  return error == ENOENT || error == ESTALE;  // ESTALE: another socket has the inode number now
}

// The kernel answers within the call that sends the question.
UnixDiag::Answer UnixDiag::ask(std::uint32_t inode, std::uint64_t cookie) noexcept {
  Answer answer{.error = EIO};
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = ~0U;
  request.body.udiag_ino = inode;
  request.body.udiag_show = UDIAG_SHOW_PEER;
  request.body.udiag_cookie[0] = static_cast<std::uint32_t>(cookie);
  request.body.udiag_cookie[1] = static_cast<std::uint32_t>(cookie >> 32);
  if (::send(socket_.get(), &request, sizeof request, 0) < 0) return answer;
  std::array<std::byte, 1024> bytes{};
  const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  const auto size = static_cast<std::size_t>(received < 0 ? 0 : received);
  if (size < sizeof(nlmsghdr)) return answer;
  const auto header = read_at<nlmsghdr>(bytes.data());
  std::size_t at = align_up(sizeof(nlmsghdr), NLMSG_ALIGNTO);
  if (header.nlmsg_type == NLMSG_ERROR && size >= at + sizeof(int)) {
    const int error = -read_at<int>(&bytes[at]);
    if (error > 0) answer.error = error;
    return answer;
  }
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < at + sizeof(unix_diag_msg)) return answer;
  const auto found = read_at<unix_diag_msg>(&bytes[at]);
  if (found.udiag_ino != inode) return answer;
  answer.error = 0;
  answer.cookie = std::uint64_t{found.udiag_cookie[1]} << 32 | found.udiag_cookie[0];
  struct Attribute {
    std::uint16_t size;
    std::uint16_t type;
  };
  for (at += align_up(sizeof found, NLMSG_ALIGNTO); at + sizeof(Attribute) <= size;) {
    const auto attribute = read_at<Attribute>(&bytes[at]);
    if (attribute.size < sizeof attribute) break;
    const std::size_t value = at + sizeof attribute;
    if (attribute.type == UNIX_DIAG_PEER && value + sizeof answer.peer <= size) {
      answer.peer = read_at<std::uint32_t>(&bytes[value]);
    }
    at += align_up(attribute.size, NLMSG_ALIGNTO);
  }
  return answer;
}

}  // namespace shmtensor
