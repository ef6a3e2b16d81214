#include "bindings/storage/words.hpp"

#include "bindings/storage/storage.hpp"
#include "os/clock.hpp"

namespace shmtensor::python {

Atomic<std::uint64_t>& word_of(PyObject* object, std::uint64_t index) {
  const Storage& storage = to_storage(object);
  if (storage.device() >= 0 || storage.read_only()) throw py::value_error("not writable words");
  if (index >= storage.size / sizeof(std::uint64_t)) throw py::index_error("no such word");
  return reinterpret_cast<Atomic<std::uint64_t>*>(storage.backing().data)[index];
}

namespace {

std::uint64_t exchange(const py::object& storage, std::uint64_t index, std::uint64_t value) {
  return word_of(storage.ptr(), index).exchange(value);
}

bool compare_exchange(const py::object& storage, std::uint64_t index, std::uint64_t expected,
                      std::uint64_t value) {
  return word_of(storage.ptr(), index).compare_exchange_strong(expected, value);
}

// In the slot of this process in the session of the words, where an observer reads it. Without a
// system call: a task may be small.
void note_task(const py::object& words, bool runs) {
  const Backing& backing = to_storage(words.ptr()).backing();
  if (backing.kind != Backing::Kind::block || !backing.arena->member().has_slot()) return;
  const Member& self = backing.arena->member();
  self.memory().slot(self.slot()).busy_since.store(runs ? monotonic_nanoseconds() : 0);
}

}  // namespace

void add_words(py::module_& module) {
  module.def("exchange_word", &exchange);
  module.def("compare_exchange_word", &compare_exchange);
  module.def("note_task", &note_task);
}

}  // namespace shmtensor::python
