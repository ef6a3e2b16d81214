// Constructors of Python classes.
#pragma once

#include <memory>
#include <utility>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Follows an `initializer` in `def`.
inline constexpr py::detail::is_new_style_constructor kInitializer;

/// `__init__` of a class whose objects `make` returns in the class's holder. In place of
/// `py::init`: if memory for pybind11's table of objects is short, pybind11 3 ends the process
/// after a constructor or a pointer, and destroys the object of a holder twice.
template <typename Holder, typename... Arguments>
auto initializer(Holder (*make)(Arguments...)) {
  return [make](py::detail::value_and_holder& self, Arguments... arguments) {
    Holder object = make(std::forward<Arguments>(arguments)...);
    const py::scoped_critical_section section(reinterpret_cast<PyObject*>(self.inst));
    if (self.instance_registered()) return;  // by another thread, while `make` ran
    self.value_ptr() = object.get();
    try {
      self.type->init_instance(self.inst, &object);
    } catch (...) {
      self.value_ptr() = nullptr;
      throw;
    }
  };
}

/// The same with a constructor that has these parameters.
template <typename Class, typename... Arguments>
auto initializer() {
  return initializer(+[](Arguments... arguments) {
    return std::make_unique<Class>(std::forward<Arguments>(arguments)...);
  });
}

}  // namespace shmtensor::python
