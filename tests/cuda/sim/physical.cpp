// Physical memory as files. A lock on the open file indicates that it is in use: the kernel keeps
// the lock for a mapping, for a descriptor, and for a descriptor in a socket, and releases it with
// the last of them, however that ended.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "sim.hpp"

namespace shmtensor::sim {
namespace {

constexpr std::uint64_t kMagic = 0x6d65'6d2d'6d69'73;  // "sim-mem"
constexpr std::uint64_t kPage = 4096;

}  // namespace

const std::string& directory() {
  static const auto* const place = new std::string([] {
    const char* named = std::getenv("SHMTENSOR_SIM_DIR");
    if (named != nullptr) return std::string(named);
    std::string made = "/tmp/shmtensor-sim-XXXXXX";
    return std::string(::mkdtemp(made.data()));
  }());
  return *place;
}

std::string Physical::path_of(std::uint64_t id) {
  return directory() + "/memory-" + std::to_string(id);
}

std::shared_ptr<Physical> Physical::map(int descriptor, std::uint64_t size) {
  void* start = ::mmap(nullptr, kPage + size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) return nullptr;
  // A forked child cannot use device memory, and keeps none alive.
  ::madvise(start, kPage + size, MADV_DONTFORK);
  return std::shared_ptr<Physical>(new Physical(start));
}

std::shared_ptr<Physical> Physical::create(std::uint64_t size, int device, int handle_types) {
  const std::uint64_t id = new_id();
  const int descriptor = ::open(path_of(id).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return nullptr;
  ::flock(descriptor, LOCK_SH);
  const bool sized = ::ftruncate(descriptor, static_cast<off_t>(kPage + size)) == 0;
  std::shared_ptr<Physical> made = sized ? map(descriptor, size) : nullptr;
  ::close(descriptor);
  if (made) {
    *made->header_ = {.magic = kMagic,
                      .id = id,
                      .size = size,
                      .device = machine_number(device),
                      .handle_types = handle_types,
                      .owner = ::getpid(),
                      .unused = 0};
    if (chosen("SHMTENSOR_SIM_NEW_MEMORY", "random")) std::memset(made->bytes(), 0xCD, size);
  }
  return made;
}

std::shared_ptr<Physical> Physical::import(int descriptor) {
  FileHeader header{};
  if (::pread(descriptor, &header, sizeof header, 0) != sizeof header || header.magic != kMagic) {
    return nullptr;
  }
  std::shared_ptr<Physical> made = map(descriptor, header.size);
  if (made) made->imported_ = true;
  return made;
}

std::shared_ptr<Physical> Physical::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  ::flock(descriptor, LOCK_SH);
  std::shared_ptr<Physical> opened = import(descriptor);
  ::close(descriptor);
  return opened;
}

Physical::~Physical() { ::munmap(header_, kPage + header_->size); }

unsigned char* Physical::bytes() const noexcept {
  return reinterpret_cast<unsigned char*>(header_) + kPage;
}

int Physical::open_descriptor() const {
  const int descriptor = ::open(path_of(header_->id).c_str(), O_RDWR);
  if (descriptor >= 0) ::flock(descriptor, LOCK_SH);
  return descriptor;
}

std::uint64_t live_bytes() {
  std::uint64_t total = 0;
  DIR* listing = ::opendir(directory().c_str());
  if (listing == nullptr) return 0;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.rfind("memory-", 0) != 0) continue;
    const std::string path = directory() + "/" + name;
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) continue;
    FileHeader header{};
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      ::unlink(path.c_str());
    } else if (::pread(descriptor, &header, sizeof header, 0) == sizeof header) {
      total += header.size;
    }
    ::close(descriptor);
  }
  ::closedir(listing);
  return total;
}

}  // namespace shmtensor::sim
