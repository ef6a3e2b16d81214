// Zero-copy export: GPU memory that a user owns, kept alive until no process holds it any more.
#pragma once

#include <cstdint>

#include "bindings/support/python.hpp"
#include "session/session.hpp"

namespace shmtensor::python {

struct Exported {
  std::byte* data = nullptr;
  int device = 0;
};

/// The memory that a block of this process describes. Throws StaleHandle if its user has it back.
[[nodiscard]] Exported exported(const Arena* arena, BlockNumber block);

void add_ipc_exports(py::module_& module);

}  // namespace shmtensor::python
