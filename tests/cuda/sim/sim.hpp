// A CUDA driver without a GPU: declarations that its parts share. tests/cuda/driver_rules.py lists
// the rules of the real driver that it keeps, and their sources.
//
// Device memory is mapped files in SHMTENSOR_SIM_DIR; nothing else connects two processes. So
// descriptors, SIGKILL and fork affect it as they affect a real driver's objects.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "clients/types.hpp"
#include "cuda/types.hpp"

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace shmtensor::sim {

using cuda::ContextHandle;
using cuda::DevicePtr;
using cuda::EventHandle;
using cuda::MemoryHandle;
using cuda::Result;
using cuda::StreamHandle;

inline constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;

// --- memory: physical.cpp ---

/// The first page of a memory file.
struct FileHeader {
  std::uint64_t magic;
  std::uint64_t id;     ///< unique over all processes: pid and a counter
  std::uint64_t size;   ///< of what follows the first page
  std::int32_t device;  ///< the machine's number
  std::int32_t handle_types;
  std::int32_t owner;  ///< pid
  std::int32_t unused;
};

/// One physical allocation, mapped at an address that only the simulator uses. The mapping holds a
/// lock on the file, as does every descriptor made by `open_descriptor`: `live_bytes` checks for
/// it.
class Physical {
 public:
  static std::shared_ptr<Physical> create(std::uint64_t size, int device, int handle_types);
  /// Null if the descriptor is not of memory of the simulator.
  static std::shared_ptr<Physical> import(int descriptor);
  /// Null if the file does not exist.
  static std::shared_ptr<Physical> open(const std::string& path);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  [[nodiscard]] const FileHeader& header() const noexcept { return *header_; }
  [[nodiscard]] bool imported() const noexcept { return imported_; }
  [[nodiscard]] unsigned char* bytes() const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept { return header_->size; }
  /// A new descriptor that keeps the memory alive; callers must set close-on-exec.
  [[nodiscard]] int open_descriptor() const;

  static std::string path_of(std::uint64_t id);

 private:
  explicit Physical(void* mapping) noexcept : header_(static_cast<FileHeader*>(mapping)) {}
  static std::shared_ptr<Physical> map(int descriptor, std::uint64_t size);

  FileHeader* header_;
  bool imported_ = false;
};

/// Bytes of physical memory that some process, mapping or descriptor keeps; dead files are removed.
std::uint64_t live_bytes();

/// The directory of this simulation.
const std::string& directory();

// --- the process ---

enum class Kind { legacy, imported, virtual_memory, managed, pool };

/// A range of device addresses that can be used.
struct Range {
  std::uint64_t size = 0;
  Kind kind = Kind::legacy;
  std::shared_ptr<Physical> memory;
  std::uint64_t offset = 0;  ///< into the memory
  std::uint64_t id = 0;      ///< BUFFER_ID
  int device = 0;
  std::map<int, int> access;        ///< virtual memory: what was granted, by device
  std::uint64_t mapped = 0;         ///< size of the whole mapping, for address reuse
  int opens = 0;                    ///< imported: how often
  cuda::IpcMemoryHandle handle{};   ///< imported: of what
  ContextHandle context = nullptr;  ///< where it was allocated or opened; virtual memory: null
  cuda::PoolHandle pool = nullptr;  ///< pool: which
  bool freed = false;               ///< pool: a stream will free it
};

struct Stream;

struct Context {
  int device = 0;
  int retained = 0;
};

/// Work for a stream; it may run when `ready` returns true, and is done when it has run.
struct Work {
  std::function<bool()> ready;
  std::function<void()> run;
};

/// What has been captured of a stream since cuStreamBeginCapture.
struct Capture {
  int mode = 0;
  std::thread::id thread;  ///< that began it
  bool broken = false;     ///< an invalid operation has invalidated it
};

struct Stream {
  const Context* context = nullptr;
  bool legacy = false;
  bool blocking = true;
  int priority = 0;
  std::shared_ptr<Capture> capture;  ///< null: work runs
  std::deque<Work> queue;
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
};

/// The object that a handle of cuIpcGetEventHandle names: a small mapped file.
struct EventFile {
  std::uint64_t magic;
  std::int32_t owner;
  std::atomic<std::uint32_t> destroyed;
  std::atomic<std::uint64_t> recorded;
  std::atomic<std::uint64_t> completed;
};

struct Event {
  const Context* context = nullptr;
  bool captured = false;  ///< last recorded in a stream that was being captured
  unsigned flags = 0;
  bool imported = false;
  std::uint64_t recorded = 0;
  std::uint64_t completed = 0;
  /// Recorded by cuCtxRecordEvent: streams, and how much each must have completed.
  std::vector<std::pair<std::shared_ptr<Stream>, std::uint64_t>> after;
  EventFile* file = nullptr;
  std::string path;
};

/// Everything of one process. Never destroyed: its threads may outlive `main`.
struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> pid{0};  ///< the process that called cuInit
  std::atomic<bool> ended{false};
  std::vector<Context> contexts;  ///< by device; the address is the handle
  std::vector<std::unique_ptr<Context>> created;
  std::map<DevicePtr, Range> ranges;
  std::map<DevicePtr, std::uint64_t> reservations;
  std::map<DevicePtr, std::uint64_t> free_addresses;
  std::map<MemoryHandle, std::pair<std::shared_ptr<Physical>, int>> handles;
  /// By context: each has its own two default streams.
  std::map<std::pair<const Context*, StreamHandle>, std::shared_ptr<Stream>> streams;
  std::atomic<int> captures{0};  ///< streams that are being captured
  std::map<EventHandle, std::shared_ptr<Event>> events;
  std::shared_ptr<Physical> small_block;
  DevicePtr small_base = 0;
  std::uint64_t small_used = 0;
  std::map<DevicePtr, std::uint32_t> small_users;
  DevicePtr next_address = 0;
  std::uint64_t counter = 0;
  std::uint64_t allocated = 0;
};
State& state();

/// Ids unique over processes.
std::uint64_t new_id();

/// A setting, as a number. Settings that choose the other way of a rule are in
/// tests/cuda/driver_rules.py.
long setting(const char* name, long otherwise);
/// True if a setting has this value.
bool chosen(const char* name, const char* value);
bool mode_is(const char* name);
int device_count();
/// Return true if the devices have the attribute IPC_EVENT_SUPPORTED, "test their device for IPC
/// functionality" (driver API, cuIpcGetMemHandle).
bool has_ipc();
/// The machine's number of a device of this process, and the reverse (-1: not visible here).
int machine_number(int device);
int process_number(int machine_device);

// --- entry to every call: entry.cpp ---

enum class Needs { nothing, init, context };

/// Writes the log, injects faults, and refuses calls of a forked, ending or uninitialized process.
Result enter(const char* name, Needs needs);
void leave(const char* name, Result result);

template <typename Body>
Result call(const char* name, Needs needs, Body&& body) {
  Result result = enter(name, needs);
  if (result == 0) result = body();
  leave(name, result);
  return result;
}

/// The calling thread's current context, or null.
Context* current();
std::vector<Context*>& context_stack();

// --- addresses: memory.cpp ---

/// With the lock held. Zero if no address is free.
DevicePtr take_addresses(std::uint64_t size);
void give_addresses(DevicePtr start, std::uint64_t size);
/// The range that holds the address, or null.
std::map<DevicePtr, Range>::iterator find_range(DevicePtr pointer);

/// Return true if the address of the range is valid in the current context.
bool in_current_context(const Range& range);
/// The access that a device has: flags, or 0.
int access_of(const Range& range, int device);

/// Pieces of host memory of device addresses, kept alive; empty if an address is not mapped or not
/// accessible.
struct Piece {
  std::shared_ptr<Physical> memory;  ///< null: the host's
  unsigned char* bytes;
  std::uint64_t size;
};
std::vector<Piece> resolve(DevicePtr pointer, std::uint64_t size, bool write, Result& problem);
/// Returns true if the two areas share bytes, whatever their addresses: a copy is then undefined.
bool overlap(const std::vector<Piece>& a, const std::vector<Piece>& b);

// --- streams: stream.cpp ---

/// With the lock held: the stream of a handle. The two default streams, of the current context, are
/// created on demand.
std::shared_ptr<Stream> find_stream(StreamHandle handle);
/// Work for a stream that is being captured does not run. Fails as `refuse_legacy` does.
Result submit(const std::shared_ptr<Stream>& stream, Work work);
/// Waits for everything that has been submitted to the stream.
void finish(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Stream>& stream);
/// Waits for the work of one context.
void finish_context(std::unique_lock<std::mutex>& lock, const Context* context);
/// Waits for the work of all contexts of a device, as a call that frees memory may do.
void finish_device(std::unique_lock<std::mutex>& lock, int device);

// --- captures: capture.cpp. With the lock held; each invalidates the captures that it conflicts
// with, and returns the error. ---

/// Refuses the legacy stream while a blocking stream of its context is being captured.
Result refuse_legacy(const Stream& stream);
/// Refuses to query, or to wait for, a stream or a context that is being captured.
Result refuse_captured(const Stream& stream);
Result refuse_captured(const Context& context);
/// Takes the lock itself. Refuses a potentially unsafe call of a thread that another capture
/// prohibits.
Result refuse_unsafe(const char* name);

/// The allocation was freed: its handles can no longer be opened in other processes.
void forget_export(std::uint64_t allocation);

/// With the lock held: frees an allocation and its addresses.
void release_range(DevicePtr start);

// --- what only clients use: clients/ ---

/// Pinned host memory.
struct HostMemory {
  std::uint64_t size = 0;
  unsigned flags = 0;
  bool registered = false;  ///< allocated by the program
  int device = 0;
  std::uint64_t id = 0;  ///< BUFFER_ID
};
/// With the lock held: by address; and the one that contains an address, or null.
std::map<std::uintptr_t, HostMemory>& host_memory();
const std::pair<const std::uintptr_t, HostMemory>* find_host_memory(std::uint64_t pointer);

/// The pool of a device that is there from the start.
cuda::PoolHandle default_pool(int device);
int pool_handle_types(cuda::PoolHandle pool);
void leave_pool(cuda::PoolHandle pool, std::uint64_t size);

inline constexpr int kGreatestPriority = -5;  ///< of streams; the least is 0

/// An attribute of a device that shmtensor does not ask for.
int other_attribute(int attribute, int device);

/// Returns true if the process runs and is not a zombie.
bool runs(int pid);

/// Kills the process whose memory or event is being opened and returns true, without waiting for
/// its end, if SHMTENSOR_SIM_KILL_OWNER is set: a driver frees what a process shares before it
/// ends.
bool kills_owner(int pid);

}  // namespace shmtensor::sim
