#include "bindings/cuda/event.hpp"

#include <cstring>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/initializer.hpp"
#include "cuda/awaited_events.hpp"
#include "cuda/event.hpp"
#include "cuda/maker.hpp"
#include "os/process.hpp"

namespace shmtensor::python {
namespace {

/// A block that this process shares, checked without holding it.
class BlockWatch {
 public:
  explicit BlockWatch(const py::object& storage) {
    const Backing& backing = to_storage(storage.ptr()).backing();
    if (backing.kind != Backing::Kind::block) throw py::type_error("not a block");
    arena_ = PinnedArena(*backing.arena);
    block_ = backing.block;
    generation_ = arena_->generation(block_);
  }

  /// Return true if no process holds the block and no unread message refers to it.
  [[nodiscard]] bool is_free() const noexcept {
    const BlockWord word(arena_->segment().record(block_).word.load());
    return !word.live_at_generation(generation_);
  }

 private:
  PinnedArena arena_;
  BlockNumber block_ = 0;
  Generation generation_ = 0;
};

struct CudaEvent {
  py::object block;  ///< released after the event is destroyed; its maker waits for that
  cuda::Event event;
  cuda::AwaitedEvent awaited;

  /// `of`: the other process that made the event.
  explicit CudaEvent(cuda::Event&& made, const cuda::Maker& of = {})
      : event(std::move(made)), awaited(event, of) {}
};

std::unique_ptr<CudaEvent> make_event(int device) {
  const GilRelease release;
  return std::make_unique<CudaEvent>(cuda::Event::create(cuda::Gpu::get(device)));
}

py::bytes describe_event(const CudaEvent& self, std::uint64_t number) {
  const ProcessIdentity maker = this_process();
  const cuda::EventDescription description{.magic = cuda::kEventMagic,
                                           .handle = self.event.export_handle(),
                                           .device = self.event.gpu().uuid(),
                                           .number = number,
                                           .pid = maker.pid,
                                           .reserved = 0,
                                           .start_time = maker.start_time,
                                           .pid_namespace = pid_namespace()};
  return {reinterpret_cast<const char*>(&description), sizeof description};
}

cuda::EventDescription to_description(const py::bytes& bytes) {
  const auto text = static_cast<std::string_view>(bytes);
  cuda::EventDescription description{};
  if (text.size() == sizeof description) std::memcpy(&description, text.data(), text.size());
  if (description.magic != cuda::kEventMagic) {
    throw StaleHandle("cannot use an event: its description is damaged");
  }
  return description;
}

// The event's number if this process made it, else 0.
std::uint64_t own_event(const py::bytes& bytes) {
  const cuda::EventDescription description = to_description(bytes);
  const bool ours = description.pid_namespace == pid_namespace() &&
                    ProcessIdentity{description.pid, description.start_time} == this_process();
  return ours ? description.number : 0;
}

std::unique_ptr<CudaEvent> open_event(const py::bytes& bytes) {
  const cuda::EventDescription description = to_description(bytes);
  const auto refuse = [&] {
    throw cuda::ProducerGone(
        cuda::kInvalidValue,
        "cannot wait for an event: process " + std::to_string(description.pid) +
            ", which made it, has ended; keep that process running until "
            "its messages are received, or send with st.cuda.set_sync(\"host\")");
  };
  const GilRelease release;
  const cuda::Maker maker = maker_of(description);
  if (maker.has_ended()) refuse();
  std::unique_ptr<CudaEvent> opened;
  try {
    const cuda::Gpu& gpu = cuda::Gpu::with_uuid(description.device);
    opened = std::make_unique<CudaEvent>(cuda::Event::open(gpu, description.handle), maker);
  } catch (const cuda::CudaError& error) {
    if (maker.caused(error)) refuse();
    throw;
  }
  // The event of a killed process can be opened, and never completes.
  if (!opened->event.is_done() && maker.has_ended() && !opened->event.is_done()) refuse();
  return opened;
}

void let_default_stream_wait(CudaEvent& self) {
  const GilRelease release;
  if (!self.awaited.start()) {
    self.event.let_wait(cuda::legacy_stream());
  } else if (!self.event.try_let_wait(cuda::legacy_stream())) {
    cuda::wait_for_awaited(self.event.gpu());  // as `let_wait` does, but its maker may end
  }
}

}  // namespace

void add_event(py::module_& module) {
  const auto unlocked = py::call_guard<GilRelease>();
  py::class_<BlockWatch>(module, "BlockWatch")
      .def("__init__", initializer<BlockWatch, const py::object&>(), kInitializer)
      .def("is_free", &BlockWatch::is_free);
  py::class_<CudaEvent>(module, "CudaEvent")
      .def("__init__", initializer(&make_event), kInitializer, py::arg("device"))
      .def("__init__", initializer(&open_event), kInitializer, py::arg("description"))
      .def_readwrite("block", &CudaEvent::block)
      .def_property_readonly("device",
                             [](const CudaEvent& self) { return self.event.gpu().number(); })
      .def("describe", &describe_event)
      .def(
          "record",
          [](const CudaEvent& self, std::uint64_t stream) {
            self.event.record(cuda::to_stream(stream));
          },
          unlocked)
      .def(
          "let_wait",
          [](const CudaEvent& self, std::uint64_t stream) {
            self.event.let_wait(cuda::to_stream(stream));
          },
          unlocked)
      .def("let_default_stream_wait", &let_default_stream_wait)
      .def(
          "is_done", [](const CudaEvent& self) { return self.event.is_done(); }, unlocked)
      .def("synchronize", [](const CudaEvent& self) { self.event.synchronize(); }, unlocked);
  module.def("cuda_own_event", &own_event);
}

}  // namespace shmtensor::python
