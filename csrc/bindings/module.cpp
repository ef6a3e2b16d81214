// The extension module shmtensor._core: objects, then the functions that are called now and then.
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "bindings/cuda.hpp"
#include "bindings/device_life.hpp"
#include "bindings/exports.hpp"
#include "bindings/gil.hpp"
#include "bindings/home.hpp"
#include "bindings/items.hpp"
#include "bindings/names.hpp"
#include "bindings/outgoing.hpp"
#include "bindings/pybind_fork.hpp"
#include "bindings/python.hpp"
#include "bindings/storage.hpp"
#include "bindings/tensor.hpp"
#include "manager/recovery.hpp"
#include "os/limits.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "os/tether.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

py::object stats() {
  Session* session = Runtime::get().home_if_any();
  if (session == nullptr) return py::none();
  Statistics all;
  Session::Usage mine;
  {
    const GilRelease release;
    all = session->statistics();
    mine = session->usage();
  }
  py::dict result;
  result["session"] = session->id().hex();
  result["slot"] = session->slot();
  result["processes"] = all.processes;
  result["arenas"] = all.arenas;
  result["blocks"] = all.blocks;
  result["bytes_live"] = all.bytes_live;
  result["bytes_reserved"] = all.bytes_reserved;
  result["in_flight"] = all.in_flight;
  result["descriptors"] = mine.descriptors;
  result["mappings"] = mine.mappings;
  return result;
}

std::uint64_t gc(double older_than) {
  Session* session = Runtime::get().home_if_any();
  if (session == nullptr) return 0;
  release_parked();
  const GilRelease release;
  Runtime::get().leave_unused();
  return session->collect(in_milliseconds(older_than));
}

std::uint64_t bytes_of(std::string_view text) {
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw py::value_error("SHMTENSOR_MAX_BYTES must be a number of bytes, digits only: '" +
                          std::string(text) + "'");
  }
  return bytes;
}

template <typename Body>
bool works(Body&& body) noexcept {
  try {
    body();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

PYBIND11_MODULE(_core, module, py::mod_gil_not_used()) {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (...) {
      translate_exception();
    }
  });
  mend_pybind_after_fork();
  add_storage(module);
  add_tensor(module);
  add_copy_in(module);
  add_outgoing(module);
  add_reducers(module);
  add_items(module);
  add_keys(module);
  add_names(module);
  add_pack(module);
  add_cuda(module);
  add_cuda_copies(module);
  add_cuda_event(module);
  add_dlpack(module);
  add_dlpack_import(module);
  add_exports(module);

  module.def("stats", &stats);
  module.def("gc", &gc);
  module.def("home_id", &home_id);
  module.def(
      "follow_managers", [] { Runtime::get().follow_managers(); }, py::call_guard<GilRelease>());
  module.def("set_home_id", [](const std::string& id) {
    Runtime::get().set_home_id(SessionId::parse(id));
    static_cast<void>(home_id());  // publishes it
  });
  module.def("set_limit", [](std::uint64_t bytes) { Runtime::get().budget().set_limit(bytes); });
  if (const char* text = std::getenv("SHMTENSOR_MAX_BYTES")) {
    Runtime::get().budget().set_limit(bytes_of(text));
  }
  module.def("limit", [] { return Runtime::get().budget().limit(); });
  module.def("sweep_names", [](bool dry_run) {
    py::list names;
    for (const std::string& name : sweep_names(dry_run)) names.append(name);
    return names;
  });
  module.def("available_memory", [] {
    const AvailableMemory memory = available_memory();
    return py::make_tuple(memory.bytes, memory.limited_by);
  });
  module.def("has_memfd",
             [] { return works([] { static_cast<void>(create_memfd("shmtensor-probe")); }); });
  module.def("has_pidfd", [] { return static_cast<bool>(open_pidfd(this_process())); });
  module.def("has_populate", [] {
    const Mapping page = Mapping::anonymous(page_size());
    return populate(page.data(), page_size(), Access::read_write);
  });
  module.def("open_tether", [](int lifeline) { return open_tether(lifeline).release(); });
  module.def("tie", &tie);
  module.def("hold_on", &hold_on);
  module.def("kill_descendants", &kill_descendants);
  module.attr("UNLIMITED") = kUnlimited;
}

}  // namespace shmtensor::python
