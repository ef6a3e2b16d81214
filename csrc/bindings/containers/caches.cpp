#include "bindings/containers/caches.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "base/siphash.hpp"
#include "bindings/channel/channel_methods.hpp"
#include "bindings/channel/object_type.hpp"
#include "bindings/channel/waiting.hpp"
#include "bindings/containers/item_sequence.hpp"
#include "bindings/containers/key_index.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/simple_buffer.hpp"
#include "channel/cache_turn.hpp"

namespace shmtensor::python {
namespace {

using py::literals::operator""_a;

struct OpenCache final : OpenChannel {
  static constexpr auto kName = "cache";

  OpenCache(std::shared_ptr<Session> joined, const Block& block)
      : session(std::move(joined)), core(*session, block) {}

  std::shared_ptr<Session> session;
  Cache core;
};

// An item that is too large for the memory lets others go, until it fits or so many attempts
// failed.
constexpr int kMostAttempts = 64;

PyObject* g_keep = nullptr;  // the name of the method that adds an item that was built

py::object new_cache_storage(std::uint64_t max_bytes, std::string_view label) {
  py::object storage = new_shared_storage(Cache::kBytes, false);
  const Backing& backing = as_storage(storage)->backing();
  Cache::create({backing.arena, backing.block}, {.max_bytes = max_bytes, .label = label_of(label)});
  return storage;
}

CacheKey key_of(const Cache& cache, PyObject* object) {
  const std::optional<Key> key = to_key(py::reinterpret_borrow<py::object>(object));
  if (!key) {
    PyErr_Format(PyExc_TypeError, "a key must be a string or an integer of 64 bits, not %R",
                 object);
    throw py::error_already_set();
  }
  const auto* const number = std::get_if<std::int64_t>(&*key);
  const auto text = number == nullptr ? std::get<std::string_view>(*key) : std::string_view();
  const auto* const data = number != nullptr ? static_cast<const void*>(number) : text.data();
  const std::size_t size = number != nullptr ? sizeof *number : text.size();
  const SipKey secret = cache.session().key();
  const SipKey other{secret.low ^ (number != nullptr ? 1u : 2u), ~secret.high};
  return {.first = std::max<std::uint64_t>(siphash(secret, data, size), 1),
          .second = siphash(other, data, size)};
}

// As long as the lock's owner may be stopped. With `waits`, also while the item is not there.
template <typename Source, typename Try>
Attempt attempt_endlessly(Source& source, ChannelCall& call, bool waits, Try&& attempt) {
  Patience endless;
  Attempt result{};
  attempt_until(source, call, endless, [&] {
    result = attempt();
    const bool ends = result == Attempt::full || (result == Attempt::empty && !waits);
    return ends ? Attempt::done : result;
  });
  return result;
}

// Returns true if the attempt is done; false if the item is not there, or has no room.
template <typename Try>
bool is_done(OpenCache& open, Try&& attempt) {
  ChannelCall call(*open.session);
  return attempt_endlessly(open.core, call, false, [&] { return attempt(call); }) == Attempt::done;
}

py::object decode(Incoming& item) {
  const auto form = static_cast<ItemForm>(item.kind);
  if (!item.block) {
    const py::object bytes = to_bytes(std::span(item.content).first(item.size));
    return load_item(checked(PyMemoryView_FromObject(bytes.ptr())).ptr(), form);
  }
  const Block block = item.block.release();
  const py::object storage = adopt_block(block.arena, block.number, Access::read_only);
  return load_item(checked(PyMemoryView_FromObject(storage.ptr())).ptr(), form);
}

/// Null if the item is not there.
py::object find(OpenCache& open, const CacheKey& key) {
  Incoming item;
  const bool found =
      is_done(open, [&](ChannelCall& call) { return open.core.try_find(key, item, call); });
  return found ? decode(item) : py::object();
}

// The same for a request of the program, which is counted.
py::object look_up(OpenCache& open, PyObject* name) {
  py::object item = find(open, key_of(open.core, name));
  open.core.count(static_cast<bool>(item));
  return item;
}

// A build, until this ends: not in Python, where a signal's handler may raise between any two
// instructions, and the item would be built by no other process then.
class Building {
 public:
  /// `record`: none if no other process knows of the build.
  Building(Cache& cache, std::optional<std::uint32_t> record) noexcept
      : cache_(cache), record_(record) {}
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;
  ~Building() {
    if (record_) CacheTurn::end(cache_, *record_);
  }

 private:
  Cache& cache_;
  std::optional<std::uint32_t> record_;
};

// Returns true if this thread builds the item; false if it is there.
bool take_turn(OpenCache& open, CacheTurn& turn, bool waits) {
  ChannelCall call(*open.session);
  static_cast<void>(attempt_endlessly(turn, call, waits, [&] {
    const Attempt result = turn.try_take(call);
    if (result == Attempt::empty && turn.is_recursive()) {
      throw std::runtime_error("the build of an item of a cache asks for the same item");
    }
    return result;
  }));
  return !turn.is_there();
}

py::object fill(PyObject* self, PyObject* name, PyObject* build, bool waits) {
  OpenCache& open = opened<OpenCache>(self);
  const CacheKey key = key_of(open.core, name);
  for (;;) {
    CacheTurn turn(open.core, key);
    if (!take_turn(open, turn, waits)) {
      if (py::object item = find(open, key)) return item;
      continue;  // it was removed meanwhile
    }
    py::object item;
    py::object added;
    {
      const Building building(open.core, turn.record());
      item = checked(PyObject_CallNoArgs(build));
      added = checked(PyObject_CallMethodObjArgs(self, g_keep, name, item.ptr(), nullptr));
    }
    py::object kept = added.ptr() == Py_True ? find(open, key) : py::object();
    return kept ? kept : item;
  }
}

PyObject* get_item(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> py::object {
    const auto [name, build, wait] =
        parse<3>("get", given, count, names, {"key", "build", "wait"}, 1);
    if (py::object item = look_up(opened<OpenCache>(self), name)) return item;
    if (build == nullptr || build == Py_None) return py::none();
    return fill(self, name, build, to_bool(wait, true));
  });
}

// The second argument is what is returned if the item is not there.
PyObject* find_item(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [name, otherwise] = parse<2>("_find", given, count, names, {"key", "otherwise"}, 2);
    const py::object item = look_up(opened<OpenCache>(self), name);
    return Py_NewRef(item ? item.ptr() : otherwise);
  });
}

PyObject* has_item(PyObject* self, PyObject* name) {
  return guarded([&] {
    OpenCache& open = opened<OpenCache>(self);
    Incoming item;
    const CacheKey key = key_of(open.core, name);
    return is_done(open, [&](ChannelCall& call) { return open.core.try_find(key, item, call); });
  });
}

PyObject* remove_item(PyObject* self, PyObject* name) {
  return guarded([&] {
    OpenCache& open = opened<OpenCache>(self);
    const CacheKey key = key_of(open.core, name);
    return is_done(open, [&](ChannelCall& call) { return open.core.try_remove(key, call); });
  });
}

bool evict(OpenCache& open, Evict which) {
  return is_done(open, [&](ChannelCall& call) { return open.core.try_evict(which, call); });
}

// Lets items go of which this process can use the memory, else any.
bool make_room(OpenCache& open, std::uint64_t bytes) {
  const std::uint64_t before = open.core.numbers().bytes;
  bool any = false;
  while (evict(open, Evict::own) || (!any && evict(open, Evict::unheld))) {
    any = true;
    if (open.core.numbers().bytes + bytes <= before) break;
  }
  return any;
}

bool add(OpenCache& open, const CacheKey& key, ItemForm form, std::span<const std::byte> bytes) {
  Session& session = *open.session;
  Outgoing item{.kind = static_cast<std::uint32_t>(form), .content = {}, .block = {}};
  item.access = Access::read_only;
  HeldBlock block;
  if (bytes.size() <= MessageEntry::kContent) {
    item.content = bytes;
  } else {
    block = HeldBlock(allocate_block(session, bytes.size(), Strategy::file_descriptor));
    const std::span<std::byte> to = bytes_of(block->arena, block->number, Access::read_write);
    without_gil_if(bytes.size() >= kLong,
                   [&] { std::memcpy(to.data(), bytes.data(), bytes.size()); });
    item.block = *block;
    item.block_bytes = block->arena->size(block->number);
  }
  return is_done(open, [&](ChannelCall& call) { return open.core.try_add(key, item, call); });
}

// Lets other items go if memory is short. Returns false if there is no room.
bool add_with_room(OpenCache& open, const CacheKey& key, ItemForm form,
                   std::span<const std::byte> bytes) {
  for (int i = 0; i < kMostAttempts; ++i) {
    try {
      return add(open, key, form, bytes);
    } catch (const OutOfMemory&) {
      if (!make_room(open, bytes.size())) break;
    }
  }
  return false;
}

PyObject* add_item(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [name, form, data] =
        parse<3>("_add", given, count, names, {"key", "form", "data"}, 3);
    OpenCache& open = opened<OpenCache>(self);
    const CacheKey key = key_of(open.core, name);
    const SimpleBuffer buffer(data);
    const bool added =
        add_with_room(open, key, static_cast<ItemForm>(to_number(form)), buffer.bytes());
    ensure_manager(*open.session);
    return added;
  });
}

PyObject* set_limit(PyObject* self, PyObject* bytes) {
  return guarded([&] {
    OpenCache& open = opened<OpenCache>(self);
    const std::uint64_t most = to_unsigned(bytes);
    open.core.set_max_bytes(most);
    while (most != 0 && open.core.numbers().bytes > most && evict(open, Evict::unheld)) {
    }
  });
}

PyObject* clear(PyObject* self, PyObject*) {
  return guarded([&] {
    OpenCache& open = opened<OpenCache>(self);
    while (evict(open, Evict::any)) {
    }
  });
}

py::object numbers_of(const Cache& cache) {
  const Cache::Numbers numbers = cache.numbers();
  const py::object limit =
      numbers.max_bytes == 0 ? py::none() : py::object(py::int_(numbers.max_bytes));
  return py::dict("hits"_a = numbers.hits, "misses"_a = numbers.misses, "items"_a = numbers.items,
                  "bytes"_a = numbers.bytes, "evictions"_a = numbers.evictions,
                  "max_bytes"_a = limit);
}

PyMethodDef g_cache_methods[] = {
    {"get", method(get_item), kWithNames,
     "get($self, key, build=None, wait=True)\n--\n\n"
     "Return the item of a key, which one process builds if it is missing.\n\n"
     "Parameters\n----------\n"
     "key\n    A string, or an integer of 64 bits.\n"
     "build\n    A function without arguments that returns the item. None: return None if it is "
     "missing. Two builds\n    that ask for one another's items wait for one another.\n"
     "wait\n    True: wait while another thread or process builds the item; if that ends without "
     "an item, this one\n    builds. False: build it, too.\n\n"
     "Returns\n-------\nobject\n"
     "    The item, with arrays that are read-only views of shared memory, also where it was "
     "built. If there was no\n    room for it, what `build` returned.\n\n"
     "Raises\n------\n"
     "TypeError\n    If the key is neither a string nor an integer of 64 bits.\n"
     "pickle.PicklingError\n    If the item cannot be pickled.\n"
     "RuntimeError\n    If `build` asks for the same item.\n"
     "Exception\n    What `build` raises. Nothing is added then."},
    {"_find", method(find_item), kWithNames, nullptr},
    {"_add", method(add_item), kWithNames, nullptr},
    {"_remove", remove_item, METH_O, nullptr},
    {"_set_limit", set_limit, METH_O, nullptr},
    {"__contains__", has_item, METH_O, nullptr},
    {"clear", clear, METH_NOARGS, "Remove all items; what processes have of them stays."},
    {"stats", call_core<OpenCache, numbers_of>, METH_NOARGS,
     "Return a dict: hits, misses, items, bytes, evictions, max_bytes.\n\n"
     "Of all processes, since the cache was made. Each item has 320 bytes besides its value."},
    {},
};
PyGetSetDef g_cache_properties[] = {{}};
PyMemberDef g_cache_members[] = {kWeakReferences, kStorage, {}};

}  // namespace

void add_caches(py::module_& module) {
  add_channel<OpenCache>(module, "shmtensor._core.CacheBase", g_cache_methods, g_cache_properties,
                         g_cache_members);
  module.def("new_cache_storage", &new_cache_storage);
  g_keep = py::str("_keep").release().ptr();
}

}  // namespace shmtensor::python
