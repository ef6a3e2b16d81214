// The message scopes that are open where the program is.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

class MessageScope;

/// A scope that was opened; null after it was closed, by any thread.
using ScopeLink = std::atomic<MessageScope*>;

/// The scopes that were opened in one context of Python (PEP 567), the last one at the end. They
/// are in a context variable, not in a variable of the thread, because greenlets of one thread,
/// each of which has its own context, may switch inside a pickle: a ticket belongs to a scope of
/// the greenlet that issues it. The list in a context never changes, since copies of the context
/// share it: another list replaces it when a scope is opened, and without scopes that are closed.
/// Threads: a thread with a copy of another one's context has none of its scopes.
class OpenScopes {
 public:
  /// Adds a scope to the present context.
  [[nodiscard]] static std::shared_ptr<ScopeLink> add(MessageScope* scope);

  /// Returns the scopes of the present context and thread. Null if there are none.
  [[nodiscard]] static OpenScopes present() noexcept;

  /// Calls `visit(scope)` for each open scope, the last one first, until it returns true.
  template <typename Visit>
  void find(Visit&& visit) const {
    if (list_ == nullptr) return;
    for (auto at = list_->rbegin(); at != list_->rend(); ++at) {
      MessageScope* const scope = (*at)->load();
      if (scope != nullptr && visit(*scope)) return;
    }
  }

 private:
  using List = std::vector<std::shared_ptr<ScopeLink>>;
  struct Value {
    List list;
    unsigned long thread;
  };

  OpenScopes(py::object keeper, const List* list) noexcept
      : keeper_(std::move(keeper)), list_(list) {}

  py::object keeper_;  ///< the capsule of the list
  const List* list_;
};

/// Makes the context variable.
void add_open_scopes();

}  // namespace shmtensor::python
