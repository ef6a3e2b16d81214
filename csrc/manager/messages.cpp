#include "manager/messages.hpp"

#include <sys/stat.h>

#include <span>

namespace shmtensor {

bool is_request(const Received& received, const Message& message,
                const SessionId& session) noexcept {
  return received.size == sizeof message && message.magic == kProtocolMagic &&
         message.version == kProtocolVersion && message.session == session;
}

void reply(const Fd& socket, Message message, MessageKind kind, const Fd* fd) {
  message.kind = kind;
  const int number = fd != nullptr ? fd->get() : -1;
  send_message(socket, std::as_bytes(std::span(&message, 1)),
               fd != nullptr ? std::span(&number, 1) : std::span<const int>(), Wait::never);
}

void refuse(const Fd& socket, Message message, const std::string& why) {
  message.set_text(why);
  reply(socket, message, MessageKind::refused);
}

bool is_socket(const Fd& fd) {
  struct stat info{};
  return ::fstat(fd.get(), &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace shmtensor
