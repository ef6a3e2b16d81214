#include "bindings/storage/place.hpp"

#include "arena/layout.hpp"
#include "bindings/storage/storage.hpp"
#include "queue/summary.hpp"

namespace shmtensor::python {
namespace {

// (strategy, arena, block, number of processes that hold it); None for other memory than blocks.
// The storage holds the block, hence the arena.
py::object place_of(const py::object& object) {
  const Backing& backing = to_storage(object.ptr()).backing();
  if (backing.kind != Backing::Kind::block) return py::none();
  const Segment& segment = backing.arena->segment();
  return py::make_tuple(name_of(segment.strategy()), segment.number(), backing.block,
                        count_processes(segment, backing.block, backing.arena->memory()));
}

}  // namespace

void add_place(py::module_& module) { module.def("place_of", &place_of); }

}  // namespace shmtensor::python
