#include "bindings/tensor/operators.hpp"

#include "bindings/support/errors.hpp"
#include "bindings/tensor/tensor.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_array = nullptr;  // numpy.ndarray

// The array of a tensor; another object itself.
py::object operand(PyObject* object) {
  if (is_tensor(object)) return to_numpy(*reinterpret_cast<Tensor*>(object));
  return py::reinterpret_borrow<py::object>(object);
}

template <unaryfunc PyNumberMethods::* slot>
PyObject* unary(PyObject* self) {
  return guarded([&] { return (g_array->tp_as_number->*slot)(operand(self).ptr()); });
}

// Either operand is a tensor. The result may be NotImplemented: the other one's class decides then.
template <binaryfunc PyNumberMethods::* slot>
PyObject* binary(PyObject* left, PyObject* right) {
  return guarded(
      [&] { return (g_array->tp_as_number->*slot)(operand(left).ptr(), operand(right).ptr()); });
}

template <ternaryfunc PyNumberMethods::* slot>
PyObject* ternary(PyObject* left, PyObject* right, PyObject* modulus) {
  return guarded([&] {
    return (g_array->tp_as_number->*slot)(operand(left).ptr(), operand(right).ptr(), modulus);
  });
}

// The array that was written becomes the tensor that it is the array of.
PyObject* result_in(PyObject* self, PyObject* written) {
  const py::object result = checked(written);
  return Py_NewRef(result.ptr() == Py_NotImplemented ? Py_NotImplemented : self);
}

template <binaryfunc PyNumberMethods::* slot>
PyObject* in_place(PyObject* self, PyObject* other) {
  return guarded([&] { return result_in(self, binary<slot>(self, other)); });
}

template <ternaryfunc PyNumberMethods::* slot>
PyObject* ternary_in_place(PyObject* self, PyObject* other, PyObject* modulus) {
  return guarded([&] { return result_in(self, ternary<slot>(self, other, modulus)); });
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  return guarded([&] {
    return g_array->tp_richcompare(operand(self).ptr(), operand(other).ptr(), operation);
  });
}

}  // namespace

void set_array_type(PyTypeObject* array) noexcept { g_array = array; }

std::vector<PyType_Slot> operator_slots() {
  using Number = PyNumberMethods;
  return {
      {Py_nb_negative, slot(unary<&Number::nb_negative>)},
      {Py_nb_positive, slot(unary<&Number::nb_positive>)},
      {Py_nb_absolute, slot(unary<&Number::nb_absolute>)},
      {Py_nb_invert, slot(unary<&Number::nb_invert>)},
      {Py_nb_add, slot(binary<&Number::nb_add>)},
      {Py_nb_subtract, slot(binary<&Number::nb_subtract>)},
      {Py_nb_multiply, slot(binary<&Number::nb_multiply>)},
      {Py_nb_true_divide, slot(binary<&Number::nb_true_divide>)},
      {Py_nb_floor_divide, slot(binary<&Number::nb_floor_divide>)},
      {Py_nb_remainder, slot(binary<&Number::nb_remainder>)},
      {Py_nb_divmod, slot(binary<&Number::nb_divmod>)},
      {Py_nb_power, slot(ternary<&Number::nb_power>)},
      {Py_nb_lshift, slot(binary<&Number::nb_lshift>)},
      {Py_nb_rshift, slot(binary<&Number::nb_rshift>)},
      {Py_nb_and, slot(binary<&Number::nb_and>)},
      {Py_nb_or, slot(binary<&Number::nb_or>)},
      {Py_nb_xor, slot(binary<&Number::nb_xor>)},
      {Py_nb_matrix_multiply, slot(binary<&Number::nb_matrix_multiply>)},
      {Py_nb_inplace_add, slot(in_place<&Number::nb_inplace_add>)},
      {Py_nb_inplace_subtract, slot(in_place<&Number::nb_inplace_subtract>)},
      {Py_nb_inplace_multiply, slot(in_place<&Number::nb_inplace_multiply>)},
      {Py_nb_inplace_true_divide, slot(in_place<&Number::nb_inplace_true_divide>)},
      {Py_nb_inplace_floor_divide, slot(in_place<&Number::nb_inplace_floor_divide>)},
      {Py_nb_inplace_remainder, slot(in_place<&Number::nb_inplace_remainder>)},
      {Py_nb_inplace_power, slot(ternary_in_place<&Number::nb_inplace_power>)},
      {Py_nb_inplace_lshift, slot(in_place<&Number::nb_inplace_lshift>)},
      {Py_nb_inplace_rshift, slot(in_place<&Number::nb_inplace_rshift>)},
      {Py_nb_inplace_and, slot(in_place<&Number::nb_inplace_and>)},
      {Py_nb_inplace_or, slot(in_place<&Number::nb_inplace_or>)},
      {Py_nb_inplace_xor, slot(in_place<&Number::nb_inplace_xor>)},
      {Py_nb_inplace_matrix_multiply, slot(in_place<&Number::nb_inplace_matrix_multiply>)},
      {Py_tp_richcompare, slot(compare)},
  };
}

}  // namespace shmtensor::python
