#include "bindings/support/os_functions.hpp"

#include <exception>

#include "os/limits.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/parent_death.hpp"
#include "os/process.hpp"

namespace shmtensor::python {
namespace {

py::tuple memory_and_limit() {
  const AvailableMemory memory = available_memory();
  return py::make_tuple(memory.bytes, memory.limited_by);
}

bool has_memfd() noexcept {
  try {
    static_cast<void>(create_memfd("shmtensor-probe"));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool has_populate() {
  const Mapping page = Mapping::anonymous(page_size());
  return populate(page.data(), page_size());
}

}  // namespace

void add_os_functions(py::module_& module) {
  module.def("available_memory", &memory_and_limit);
  module.def("has_memfd", &has_memfd);
  module.def("has_pidfd", [] { return static_cast<bool>(open_pidfd(this_process())); });
  module.def("has_populate", &has_populate);
  module.def("open_parent_death_pipe",
             [](int read_end) { return open_parent_death_pipe(read_end).release(); });
  module.def("bind_parent_death_signal", &bind_parent_death_signal);
  module.def("arm_parent_death_signal", &arm_parent_death_signal);
}

}  // namespace shmtensor::python
