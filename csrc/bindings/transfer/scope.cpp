#include "bindings/transfer/scope.hpp"

#include <utility>

#include "bindings/transfer/read_scope.hpp"
#include "bindings/transfer/send_scope.hpp"

namespace shmtensor::python {
namespace {

constexpr const char* kName = "shmtensor.open_scopes";

template <typename Kind>
PyObject* g_variable = nullptr;

}  // namespace

template <typename Kind>
void Scope<Kind>::prepare() {
  g_variable<Kind> = checked(PyContextVar_New(kName, nullptr)).release().ptr();
}

template <typename Kind>
auto Scope<Kind>::opened() noexcept -> Opened {
  PyObject* found = nullptr;
  if (PyContextVar_Get(g_variable<Kind>, nullptr, &found) != 0) PyErr_Clear();
  if (found == nullptr) return {};
  py::object keeper = py::reinterpret_steal<py::object>(found);
  const auto* value = static_cast<const Value*>(PyCapsule_GetPointer(found, kName));
  if (value == nullptr) PyErr_Clear();
  const bool here = value != nullptr && value->thread == PyThread_get_thread_ident();
  return {std::move(keeper), here ? &value->list : nullptr};
}

template <typename Kind>
void Scope<Kind>::open() {
  close();
  auto value = std::make_unique<Value>(Value{{}, PyThread_get_thread_ident()});
  const Opened before = opened();
  if (before.list != nullptr) {
    for (const auto& link : *before.list) {
      if (link->load() != nullptr) value->list.push_back(link);
    }
  }
  auto link = std::make_shared<Link>(static_cast<Kind*>(this));
  value->list.push_back(link);
  const py::object capsule = checked(PyCapsule_New(value.get(), kName, [](PyObject* self) {
    delete static_cast<Value*>(PyCapsule_GetPointer(self, kName));
  }));
  static_cast<void>(value.release());
  checked(PyContextVar_Set(g_variable<Kind>, capsule.ptr()));
  link_ = std::move(link);
}

// Perhaps in another thread or context than the one that opened it, whose list keeps the link until
// it opens another scope.
template <typename Kind>
void Scope<Kind>::close() noexcept {
  if (link_ == nullptr) return;
  link_->store(nullptr);
  link_.reset();
}

template class Scope<SendScope>;
template class Scope<ReadScope>;

}  // namespace shmtensor::python
