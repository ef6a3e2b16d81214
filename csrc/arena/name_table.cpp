#include "arena/name_table.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace shmtensor {

// A key is not removed during the session. So all searches for a name visit the same records, and
// find either its record or the same empty one; a compare-and-swap decides which process fills that
// record.
std::optional<std::uint32_t> NameTable::find(std::string_view name, SipKey key, bool make) {
  const std::uint64_t hash = std::max<std::uint64_t>(1, siphash(key, name.data(), name.size()));
  for (std::uint32_t step = 0; step < kNames; ++step) {
    const std::uint32_t number = static_cast<std::uint32_t>(hash + step) % kNames;
    NameRecord& record = records[number];
    std::uint64_t found = record.key.load();
    if (found == 0) {
      if (!make) return std::nullopt;
      if (record.key.compare_exchange_strong(found, hash)) found = hash;
    }
    if (found != hash) continue;
    if (make) {  // all processes that get here write the same
      for (std::size_t i = 0; i < name.size(); ++i) record.name[i].store(name[i]);
      record.size.store(static_cast<std::uint8_t>(name.size()));
    }
    return number;
  }
  if (!make) return std::nullopt;
  throw OutOfMemory(
      "cannot publish: a session has 4096 names, and all have been used; publish one object with "
      "many parts instead");
}

std::optional<NameState> NameTable::change(std::uint32_t number, NameState seen,
                                           NameState next) noexcept {
  if (!records[number % kNames].state.compare_exchange_strong(seen.bits, next.bits)) {
    return std::nullopt;
  }
  return next;
}

void NameTable::write_handle(std::uint32_t number, std::uint32_t place,
                             const NameHandle& handle) noexcept {
  NameRecord::Handle& stored = records[number % kNames].handles[place % 2];
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, handle.data() + i * sizeof word, sizeof word);
    stored[i].store(word);
  }
}

NameHandle NameTable::read_handle(std::uint32_t number, std::uint32_t place) const noexcept {
  const NameRecord::Handle& stored = records[number % kNames].handles[place % 2];
  NameHandle handle;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::uint64_t word = stored[i].load();
    std::memcpy(handle.data() + i * sizeof word, &word, sizeof word);
  }
  return handle;
}

std::string NameTable::name(std::uint32_t number) const {
  const NameRecord& record = records[number % kNames];
  std::string text(std::min<std::size_t>(record.size.load(), NameRecord::kMaxName), '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = record.name[i].load();
  return text;
}

}  // namespace shmtensor
