// Which message a tensor belongs to that is pickled or unpickled here and now.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/session/origin.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// While a scope is open in a thread, the tensors that the thread pickles (SendScope) or unpickles
/// (ReadScope) belong to its message: the pickler's hooks take no argument of ours. Scopes of one
/// kind nest; the last one counts that was opened in its context and is still open. They may be
/// closed in any order, and destroyed by any thread.
///
/// The open scopes are in a context variable of Python (PEP 567), not in a variable of the thread,
/// because greenlets of one thread, each of which has its own context, may switch inside a pickle:
/// a ticket belongs to a scope of the greenlet that issues it. The list in a context never changes,
/// since copies of the context share it: another list replaces it when a scope is opened, and
/// without scopes that are closed.
/// Threads: one at a time. A thread with a copy of another one's context has none of its scopes.
template <typename Kind>
class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  void open();
  void close() noexcept;

  /// Makes the context variable.
  static void prepare();

 protected:
  ~Scope() = default;

  /// Of the scopes that are open here, the last one that `accept(scope)` accepts, or null.
  template <typename Accept>
  [[nodiscard]] static Kind* find(Accept&& accept) {
    const Opened here = opened();
    if (here.list == nullptr) return nullptr;
    for (auto at = here.list->rbegin(); at != here.list->rend(); ++at) {
      Kind* const scope = (*at)->load();
      if (scope != nullptr && accept(*scope)) return scope;
    }
    return nullptr;
  }

  [[nodiscard]] bool is_ours() const noexcept { return origin_.is_this_process(); }

 private:
  friend Kind;
  Scope() = default;

  /// A scope that was opened; null after it was closed, by any thread.
  using Link = std::atomic<Kind*>;
  using List = std::vector<std::shared_ptr<Link>>;
  struct Value {
    List list;
    unsigned long thread;
  };
  struct Opened {
    py::object keeper;  ///< the capsule of the list
    const List* list = nullptr;
  };

  /// The scopes of the present context and thread.
  [[nodiscard]] static Opened opened() noexcept;

  static constexpr const char* kName = "shmtensor.open_scopes";
  inline static PyObject* variable_ = nullptr;

  std::shared_ptr<Link> link_;  ///< null unless open
  Origin origin_;
};

template <typename Kind>
void Scope<Kind>::prepare() {
  variable_ = checked(PyContextVar_New(kName, nullptr)).release().ptr();
}

template <typename Kind>
auto Scope<Kind>::opened() noexcept -> Opened {
  PyObject* found = nullptr;
  if (PyContextVar_Get(variable_, nullptr, &found) != 0) PyErr_Clear();
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
  checked(PyContextVar_Set(variable_, capsule.ptr()));
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

}  // namespace shmtensor::python
