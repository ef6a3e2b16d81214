// What this process shares in place: memory of its user, kept alive until nobody holds it any more.
#pragma once

#include <cstdint>

#include "bindings/python.hpp"
#include "session/session.hpp"

namespace shmtensor::python {

struct Exported {
  std::byte* data = nullptr;
  int device = 0;
};

/// Where the memory of a block lies, of which this process is the owner. Throws StaleHandle when it
/// has been let go.
[[nodiscard]] Exported exported(const Arena* arena, BlockNumber block);

void add_exports(py::module_& module);

}  // namespace shmtensor::python
