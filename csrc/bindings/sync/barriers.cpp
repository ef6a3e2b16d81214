#include "bindings/sync/barriers.hpp"

#include <optional>

#include "bindings/sync/open_primitive.hpp"

namespace shmtensor::python {
namespace {

using std::chrono::nanoseconds;

py::object new_barrier_storage(std::uint32_t parties) {
  return new_primitive(sync::Barrier::bytes(),
                       [&](std::span<std::byte> block) { sync::Barrier::create(block, parties); });
}

// Breaks the round if the time is over before all have arrived. The action has no limit.
void wait_for_end(OpenBarrier& open, std::uint32_t round, Patience& patience) {
  const auto has_ended = [&] { return open.core.state_of(round) != sync::Barrier::Round::open; };
  const auto wait = [&](nanoseconds time) {
    open.core.wait(round, time);
    return has_ended();
  };
  if (has_ended() || wait_in_slices(*open.session, patience, wait)) return;
  open.core.break_round(round, true);
  Patience endless;
  static_cast<void>(wait_in_slices(*open.session, endless, wait));
}

// As many as were there before; None: the barrier is broken. No Python code runs between the
// arrival and the `try`: the error of a signal handler would leave a party that does not come.
PyObject* wait_for_all(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> py::object {
    OpenBarrier& open = opened<OpenBarrier>(self);
    const auto [action, timeout] = parse<2>("_wait", given, count, names, {"action", "timeout"}, 2);
    Patience patience = patience_of(nullptr, timeout);
    std::optional<sync::Barrier::Arrival> arrival;
    while ((arrival = open.core.arrive(open.slot())) && arrival->is_full) {
      wait_for_end(open, arrival->round, patience);
    }
    if (!arrival) return py::none();
    try {
      if (!arrival->is_last) {
        wait_for_end(open, arrival->round, patience);
      } else {
        if (action != Py_None) checked(PyObject_CallNoArgs(action));
        open.core.release(arrival->round);
      }
    } catch (...) {
      open.core.break_round(arrival->round, !arrival->is_last);
      throw;
    }
    if (open.core.state_of(arrival->round) != sync::Barrier::Round::done) return py::none();
    return py::int_(arrival->index);
  });
}

void abort_barrier(sync::Barrier& barrier) { barrier.break_round(); }

PyObject* disown_barrier(PyObject* self, PyObject*) {
  return guarded([&] {
    OpenBarrier& open = opened<OpenBarrier>(self);
    open.core.disown(open.slot());
  });
}

PyMethodDef g_barrier_methods[] = {
    {"_wait", method(wait_for_all), kWithNames, nullptr},
    {"_disown", disown_barrier, METH_NOARGS, nullptr},
    {"abort", call_core<OpenBarrier, abort_barrier>, METH_NOARGS,
     "Break the barrier: all that wait, and will wait, raise BrokenBarrierError."},
    {"reset", call_core<OpenBarrier, &sync::Barrier::reset>, METH_NOARGS,
     "Mend the barrier. Those that wait raise BrokenBarrierError."},
    {},
};
PyGetSetDef g_barrier_properties[] = {
    {"parties", call_core<OpenBarrier, &sync::Barrier::parties>, nullptr,
     "How many threads end a round.", nullptr},
    {"n_waiting", call_core<OpenBarrier, &sync::Barrier::waiting>, nullptr,
     "How many threads wait.", nullptr},
    {"broken", call_core<OpenBarrier, &sync::Barrier::is_broken>, nullptr,
     "True if the barrier is broken.", nullptr},
    {"_dead_pid", call_core<OpenBarrier, &sync::Barrier::dead_pid>, nullptr, nullptr, nullptr},
    {},
};

}  // namespace

void add_barriers(py::module_& module) {
  add_primitive<OpenBarrier>(module, "shmtensor._core.BarrierBase", g_barrier_methods,
                             g_barrier_properties);
  module.def("new_barrier_storage", &new_barrier_storage);
}

}  // namespace shmtensor::python
