#include "bindings/storage/lookup.hpp"

#include "arena/address_map.hpp"
#include "base/align.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/arguments.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/objects.hpp"
#include "os/fork_mark.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

// With the address map locked: a storage leaves the map, or its block's entry, before it is freed.
bool contains(const Storage& storage, const std::byte* address, std::uint64_t size) noexcept {
  const std::byte* const data = storage.backing().data;
  return address >= data && fits(static_cast<std::uint64_t>(address - data), size, storage.size);
}

PyObject* find_by_address(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    if (count != 2) throw py::type_error("storage_at takes an address and a number of bytes");
    const std::uint64_t address = to_unsigned(arguments[0]);
    const std::uint64_t size = to_unsigned(arguments[1]);
    const py::object found = storage_at(reinterpret_cast<const void*>(address), size);
    return found ? found : py::none();
  });
}

PyMethodDef g_functions[] = {
    {"storage_at", method(find_by_address), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

// In a raw copy of a process, a thread that does not exist there may have the map locked.
py::object storage_at(const void* address, std::uint64_t size) {
  if (size == 0 || is_raw_copy()) return {};
  static_cast<void>(Runtime::get());  // its handlers lock the map during a fork
  const auto* const first = static_cast<const std::byte*>(address);
  void* const found = AddressMap::get().find(first, [first, size](void* object) {
    return contains(*static_cast<const Storage*>(object), first, size) &&
           try_incref(static_cast<PyObject*>(object));
  });
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(found));
}

void add_lookup(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), g_functions) != 0) throw py::error_already_set();
}

}  // namespace shmtensor::python
