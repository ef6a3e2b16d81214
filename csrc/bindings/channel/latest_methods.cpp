#include "bindings/channel/latest_methods.hpp"

#include "bindings/channel/channel_methods.hpp"
#include "bindings/channel/object_type.hpp"

namespace shmtensor::python {
namespace {

// The number of the value that was set is not known: another process may have set one since.
PyObject* set_latest(PyObject* self, PyObject* item) {
  return guarded([&] {
    Patience endless;
    put_one(opened<OpenLatest>(self), item, channel_of(self).dumps, endless);
  });
}

PyObject* get_latest(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> py::object {
    const auto [after, timeout] = parse<2>("_newer", given, count, names, {"after", "timeout"}, 1);
    const std::uint64_t known = to_unsigned(after);
    Patience patience = to_patience(self, timeout);
    const auto taken = get_newer(opened<OpenLatest>(self), known, patience);
    if (!taken) return py::none();
    return py::make_tuple(taken->first, taken->second);
  });
}

PyMethodDef g_latest_methods[] = {
    {"set", set_latest, METH_O, "Let `value` be the newest one."},
    {"_newer", method(get_latest), kWithNames, nullptr},
    {},
};
PyGetSetDef g_latest_properties[] = {
    {"version", call_core<OpenLatest, &Broadcast::count>, nullptr,
     "How many values were set, by all processes.", nullptr},
    {},
};
PyMemberDef g_latest_members[] = {kWeakReferences, kStorage, {}};

}  // namespace

void add_latest(py::module_& module) {
  add_channel<OpenLatest>(module, "shmtensor._core.LatestBase", g_latest_methods,
                          g_latest_properties, g_latest_members);
}

}  // namespace shmtensor::python
