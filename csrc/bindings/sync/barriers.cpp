#include "bindings/sync/barriers.hpp"

#include "bindings/sync/open_primitive.hpp"

namespace shmtensor::python {
namespace {

using std::chrono::nanoseconds;

py::object new_barrier_storage(std::uint32_t parties) {
  return new_primitive(sync::Barrier::bytes(),
                       [&](std::span<std::byte> block) { sync::Barrier::create(block, parties); });
}

// (round, index, is last), or None.
PyObject* arrive(PyObject* self, PyObject*) {
  return guarded([&]() -> py::object {
    OpenBarrier& open = opened<OpenBarrier>(self);
    const SlotNumber slot = open.slot();
    const std::optional<sync::Barrier::Arrival> arrival = [&] {
      const GilRelease release;
      return open.core.arrive(slot);
    }();
    if (!arrival) return py::none();
    return py::make_tuple(arrival->round, arrival->index, arrival->is_last);
  });
}

std::uint32_t to_round(PyObject* number) { return static_cast<std::uint32_t>(to_number(number)); }

// True: it has ended; False: it is broken; None: the time is over.
PyObject* wait_for_round(PyObject* self, PyObject* const* given, Py_ssize_t count,
                         PyObject* names) {
  return guarded([&] {
    using Round = sync::Barrier::Round;
    OpenBarrier& open = opened<OpenBarrier>(self);
    const auto [number, timeout] = parse<2>("_wait", given, count, names, {"number", "timeout"}, 1);
    const std::uint32_t round = to_round(number);
    Patience patience = patience_of(nullptr, timeout);
    Round state = open.core.state_of(round);
    if (state == Round::open) {
      static_cast<void>(wait_in_slices(*open.session, patience, [&](nanoseconds time) {
        open.core.wait(round, time);
        state = open.core.state_of(round);
        return state != Round::open;
      }));
    }
    if (state == Round::open) return Py_NewRef(Py_None);
    return Py_NewRef(state == Round::done ? Py_True : Py_False);
  });
}

PyObject* release_round(PyObject* self, PyObject* number) {
  return guarded([&] {
    OpenBarrier& open = opened<OpenBarrier>(self);
    const std::uint32_t round = to_round(number);
    open.core.release(round);
    return open.core.state_of(round) == sync::Barrier::Round::done;
  });
}

PyObject* break_round(PyObject* self, PyObject* number) {
  return guarded([&] { opened<OpenBarrier>(self).core.break_round(to_round(number)); });
}

void abort_barrier(sync::Barrier& barrier) { barrier.break_round(); }

PyObject* disown_barrier(PyObject* self, PyObject*) {
  return guarded([&] {
    OpenBarrier& open = opened<OpenBarrier>(self);
    open.core.disown(open.slot());
  });
}

PyMethodDef g_barrier_methods[] = {
    {"_arrive", arrive, METH_NOARGS, nullptr},
    {"_wait", method(wait_for_round), kWithNames, nullptr},
    {"_release", release_round, METH_O, nullptr},
    {"_break", break_round, METH_O, nullptr},
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
