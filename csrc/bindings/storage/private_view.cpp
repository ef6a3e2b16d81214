#include "bindings/storage/private_view.hpp"

#include <cstdint>
#include <utility>

#include "arena/arena.hpp"
#include "base/align.hpp"
#include "base/error.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/initializer.hpp"
#include "os/mapping.hpp"

namespace shmtensor::python {
namespace {

/// The bytes of a block in a mapping of their own, which no other process sees: the kernel copies a
/// page when this process writes into it. Requires that no process writes into the block itself.
/// Holds the block's storage. The address is not in the address map, since what is sent from here
/// is not what the block contains.
/// Threads: all may use the bytes.
class PrivateView {
 public:
  explicit PrivateView(py::object storage) : storage_(std::move(storage)) {
    const Backing& backing = to_storage(storage_.ptr()).backing();
    if (backing.kind != Backing::Kind::block || backing.device >= 0) {
      throw py::type_error("not a block of host memory");
    }
    size_ = as_storage(storage_)->size;
    if (size_ == 0) return;
    const Segment& segment = backing.arena->segment();
    const GilRelease release;
    // `backing.data` was checked against the arena's size when the storage was made.
    const std::uint64_t start =
        segment.layout().data() +
        segment.record(backing.block).offset.load(std::memory_order_relaxed);
    const std::uint64_t page = align_down(start, page_size());
    mapping_ = Mapping::copy_on_write(*segment.file(), page, start - page + size_);
    data_ = mapping_.data() + (start - page);
  }

  PrivateView(const PrivateView&) = delete;
  PrivateView& operator=(const PrivateView&) = delete;
  ~PrivateView() {
    without_gil_if(size_ >= kLong, [&] { mapping_.reset(); });
  }

  [[nodiscard]] py::object storage() const { return storage_; }
  [[nodiscard]] py::buffer_info buffer() const {
    return {reinterpret_cast<std::uint8_t*>(data_), static_cast<py::ssize_t>(size_)};
  }

 private:
  py::object storage_;
  std::uint64_t size_ = 0;
  Mapping mapping_;
  std::byte* data_ = nullptr;
};

}  // namespace

void add_private_view(py::module_& module) {
  py::class_<PrivateView>(module, "PrivateView", py::buffer_protocol())
      .def("__init__", initializer<PrivateView, py::object>(), kInitializer)
      .def_property_readonly("storage", &PrivateView::storage)
      .def_buffer(&PrivateView::buffer);
}

}  // namespace shmtensor::python
