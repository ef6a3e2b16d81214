#include "bindings/transfer/open_scopes.hpp"

#include <utility>

namespace shmtensor::python {
namespace {

constexpr const char* kName = "shmtensor.open_scopes";

PyObject* g_variable = nullptr;

}  // namespace

OpenScopes OpenScopes::present() noexcept {
  PyObject* found = nullptr;
  if (PyContextVar_Get(g_variable, nullptr, &found) != 0) PyErr_Clear();
  if (found == nullptr) return {py::object(), nullptr};
  py::object keeper = py::reinterpret_steal<py::object>(found);
  const auto* value = static_cast<const Value*>(PyCapsule_GetPointer(found, kName));
  if (value == nullptr) PyErr_Clear();
  const bool here = value != nullptr && value->thread == PyThread_get_thread_ident();
  return {std::move(keeper), here ? &value->list : nullptr};
}

std::shared_ptr<ScopeLink> OpenScopes::add(MessageScope* scope) {
  auto value = std::make_unique<Value>(Value{{}, PyThread_get_thread_ident()});
  const OpenScopes before = present();
  if (before.list_ != nullptr) {
    for (const auto& link : *before.list_) {
      if (link->load() != nullptr) value->list.push_back(link);
    }
  }
  auto link = std::make_shared<ScopeLink>(scope);
  value->list.push_back(link);
  const py::object capsule = checked(PyCapsule_New(value.get(), kName, [](PyObject* self) {
    delete static_cast<Value*>(PyCapsule_GetPointer(self, kName));
  }));
  static_cast<void>(value.release());
  checked(PyContextVar_Set(g_variable, capsule.ptr()));
  return link;
}

void add_open_scopes() {
  g_variable = PyContextVar_New(kName, nullptr);
  if (g_variable == nullptr) throw py::error_already_set();
}

}  // namespace shmtensor::python
