#include "bindings/support/os_functions.hpp"

#include "base/error.hpp"
#include "os/limits.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "os/tether.hpp"

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
  } catch (const Error&) {
    return false;
  }
}

bool has_populate() {
  const Mapping page = Mapping::anonymous(page_size());
  return populate(page.data(), page_size(), Access::read_write);
}

}  // namespace

void add_os_functions(py::module_& module) {
  module.def("available_memory", &memory_and_limit);
  module.def("has_memfd", &has_memfd);
  module.def("has_pidfd", [] { return static_cast<bool>(open_pidfd(this_process())); });
  module.def("has_populate", &has_populate);
  module.def("open_tether", [](int lifeline) { return open_tether(lifeline).release(); });
  module.def("tie", &tie);
  module.def("hold_on", &hold_on);
}

}  // namespace shmtensor::python
