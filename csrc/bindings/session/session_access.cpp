#include "bindings/session/session_access.hpp"

#include <cstdint>
#include <optional>

#include "bindings/support/gil.hpp"
#include "os/fork_mark.hpp"

namespace shmtensor::python {
namespace {

// A child that is started with a copy of os.environ finds the session there.
void publish(const SessionId& id) {
  py::module_::import("os").attr("environ")[kSessionVariable] = id.hex();
}

// Passes on two facts that only Python knows: the path of the manager program, and the process that
// started this one through multiprocessing, which may read this process's messages after its end.
void configure_runtime() {
  Runtime& runtime = Runtime::get();
  const auto file = py::module_::import("shmtensor._core").attr("__file__").cast<std::string>();
  const py::dict modules = py::module_::import("sys").attr("modules");
  std::int32_t pid = 0;
  if (modules.contains("multiprocessing.process")) {
    const py::object parent = modules["multiprocessing.process"].attr("parent_process")();
    if (!parent.is_none()) pid = parent.attr("pid").cast<std::int32_t>();
  }
  const GilRelease release;  // these wait for a thread that is joining
  runtime.set_program(file.substr(0, file.find_last_of('/') + 1) + "shmtensor-manager");
  if (pid != 0) runtime.set_parent(pid);
}

}  // namespace

Session& home() {
  refuse_in_raw_copy();
  Runtime& runtime = Runtime::get();
  if (Session* session = runtime.home_if_any()) return *session;
  configure_runtime();
  Session* session = nullptr;
  {
    const GilRelease release;
    session = &runtime.home();
  }
  publish(runtime.home_id());
  return *session;
}

Block allocate_block(Session& session, std::uint64_t size, Placement placement) {
  if (const std::optional<Block> warm = session.allocate_warm(size, placement)) return *warm;
  const GilRelease release;
  return session.allocate(size, placement);
}

std::string home_id() {
  const SessionId id = Runtime::get().home_id();
  publish(id);
  return id.hex();
}

std::shared_ptr<Session> session_of(const SessionId& id, Session::Start start) {
  refuse_in_raw_copy();
  Runtime& runtime = Runtime::get();
  if (std::shared_ptr<Session> session = runtime.find(id)) return session;
  configure_runtime();
  std::shared_ptr<Session> session;
  {
    const GilRelease release;
    session = runtime.join(id, start);
  }
  publish(runtime.home_id());
  return session;
}

PinnedArena arena_of(Session& session, const TensorReference& reference) {
  if (PinnedArena arena = session.find(reference.arena)) return arena;
  const GilRelease release;
  return session.attach(reference.arena, reference.strategy);
}

}  // namespace shmtensor::python
