#include "bindings/session/session_functions.hpp"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/siphash.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/support/gil.hpp"
#include "manager/manager_address.hpp"
#include "manager/recovery.hpp"
#include "session/runtime.hpp"
#include "session/session_name.hpp"

namespace shmtensor::python {
namespace {

using py::literals::operator""_a;

py::object stats() {
  Session* session = Runtime::get().home_if_any();
  if (session == nullptr) return py::none();
  Statistics all;
  MappedArenas::Usage mine;
  {
    const GilRelease release;
    all = session->manager().statistics();
    mine = session->usage();
  }
  return py::dict("session"_a = session->id().hex(), "slot"_a = session->slot(),
                  "processes"_a = all.processes, "arenas"_a = all.arenas, "blocks"_a = all.blocks,
                  "bytes_live"_a = all.bytes_live, "bytes_reserved"_a = all.bytes_reserved,
                  "in_flight"_a = all.in_flight, "queues"_a = all.queues, "queued"_a = all.queued,
                  "descriptors"_a = mine.descriptors, "mappings"_a = mine.mappings);
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

void set_home_id(const std::string& id) {
  Runtime::get().set_home_id(session_named(id));
  static_cast<void>(home_id());  // publishes it
}

// The same in all processes that share this session's memory, and in no other process: the key is
// random. Two sessions of one name, on two hosts, have different ones.
std::string home_proof() {
  constexpr std::string_view kPurpose = "proof of membership";
  const SipKey key = home().memory().header().key;
  return std::to_string(siphash(key, kPurpose.data(), kPurpose.size()));
}

py::list sweep(bool dry_run) {
  py::list names;
  for (const std::string& name : sweep_names(dry_run)) names.append(name);
  return names;
}

}  // namespace

void add_session_functions(py::module_& module) {
  module.def("stats", &stats);
  module.def("home_id", &home_id);
  module.def("has_home", [] { return Runtime::get().home_if_any() != nullptr; });
  module.def("home_proof", &home_proof);
  module.def("set_home_id", &set_home_id);
  // The bytes of the environment variable, of which Python has made the text.
  module.def("session_named", [](const py::str& text) {
    const py::object bytes = checked(PyUnicode_EncodeFSDefault(text.ptr()));
    return session_named(bytes.cast<std::string>()).hex();
  });
  module.def("home_is_named", [] { return Runtime::get().home_is_named(); });
  module.def("home_is_of_this_process", [] { return Runtime::get().home_is_of_this_process(); });
  module.def("runtime_directory", []() -> py::object {
    const SocketDirectory* directory = runtime_directory();
    if (directory == nullptr) return py::none();
    return checked(PyUnicode_DecodeFSDefault(directory->path().c_str()));
  });
  module.def(
      "ensure_managers", [] { Runtime::get().ensure_managers(); }, py::call_guard<GilRelease>());
  module.def("set_limit", [](std::uint64_t bytes) { Runtime::get().budget().set_limit(bytes); });
  module.def("get_limit", [] { return Runtime::get().budget().limit(); });
  module.def("sweep_names", &sweep);
  module.attr("UNLIMITED") = kUnlimited;
  if (const char* text = std::getenv("SHMTENSOR_MAX_BYTES")) {
    Runtime::get().budget().set_limit(bytes_of(text));
  }
}

}  // namespace shmtensor::python
