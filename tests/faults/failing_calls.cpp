// A library to preload: calls that need a descriptor or memory fail at random, FAILING_CALLS of a
// thousand in session managers and FAILING_CALLS_OF_MEMBERS of a thousand elsewhere.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

bool is_manager() noexcept {
  static const bool known = std::string_view(program_invocation_short_name) == "shmtensor-manager";
  return known;
}

bool fails(int code) noexcept {
  static const char* const given =
      std::getenv(is_manager() ? "FAILING_CALLS" : "FAILING_CALLS_OF_MEMBERS");
  static const long rate = given != nullptr ? std::strtol(given, nullptr, 10) : 0;
  if (rate == 0) return false;
  thread_local pid_t seeded_by = 0;
  thread_local unsigned seed = 0;
  if (seeded_by != ::getpid()) {  // a forked child has its own random sequence
    seeded_by = ::getpid();
    seed = static_cast<unsigned>(seeded_by);
  }
  if (::rand_r(&seed) % 1000 >= rate) return false;
  errno = code;
  return true;
}

template <typename Function>
Function* next(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, mode_t);
  va_end(arguments);
  static auto* const real = next<int(const char*, int, ...)>("open");
  return is_manager() && fails(EMFILE) ? -1 : real(path, flags, mode);  // Python needs its files
}

__attribute__((visibility("default"))) int fallocate(int file, int mode, off_t offset, off_t size) {
  static auto* const real = next<int(int, int, off_t, off_t)>("fallocate");
  return mode == 0 && fails(ENOSPC) ? -1 : real(file, mode, offset, size);
}

__attribute__((visibility("default"))) int shm_open(const char* name, int flags, mode_t mode) {
  static auto* const real = next<int(const char*, int, mode_t)>("shm_open");
  return fails(EMFILE) ? -1 : real(name, flags, mode);
}

__attribute__((visibility("default"))) DIR* opendir(const char* path) {
  static auto* const real = next<DIR*(const char*)>("opendir");
  // /proc has a file for each process of the machine: with many, no manager would ever start.
  const bool of_a_process = std::string_view(path).starts_with("/proc/");
  return is_manager() && !of_a_process && fails(EMFILE) ? nullptr : real(path);
}

__attribute__((visibility("default"))) void* mmap(void* address, size_t size, int protection,
                                                  int flags, int file, off_t offset) noexcept {
  static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if (file >= 0 && fails(ENOMEM)) return MAP_FAILED;
  return real(address, size, protection, flags, file, offset);
}

__attribute__((visibility("default"))) int epoll_ctl(int poller, int operation, int file,
                                                     epoll_event* event) noexcept {
  static auto* const real = next<int(int, int, int, epoll_event*)>("epoll_ctl");
  return operation == EPOLL_CTL_ADD && fails(ENOSPC) ? -1 : real(poller, operation, file, event);
}

// The kernel closes a passed descriptor for which the receiver has no room.
__attribute__((visibility("default"))) ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static auto* const real = next<ssize_t(int, msghdr*, int)>("recvmsg");
  const ssize_t size = real(socket, message, flags);
  const cmsghdr* const first = size > 0 ? CMSG_FIRSTHDR(message) : nullptr;
  if (first != nullptr && first->cmsg_type == SCM_RIGHTS && fails(EMFILE)) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(first), sizeof file);
    ::close(file);
    message->msg_controllen = 0;
    message->msg_flags |= MSG_CTRUNC;
  }
  return size;
}
}
