#include "containers/key_table.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "base/align.hpp"
#include "base/error.hpp"
#include "base/read_once.hpp"
#include "base/siphash.hpp"

namespace shmtensor {
namespace {

// Header: magic | count | slots | size of the whole
constexpr std::uint64_t kHead = 32;
// Record: value:8 | number, or offset of the text:8 | size of the text + 1, or 0 for a number:8
constexpr std::uint64_t kRecord = 24;
// Slot: part of the hash:24 | place + 1:40; a slot of 0 is empty.
constexpr std::uint64_t kPlace = (std::uint64_t{1} << 40) - 1;
constexpr SipKey kHashKey{kKeysMagic, ~kKeysMagic};

[[noreturn]] void corrupt(const char* what) {
  throw CorruptData(std::string("cannot read a shared dict: ") + what +
                    "; the shared memory is corrupted. Rebuild the container");
}

std::uint64_t hash_of(const Key& key) noexcept {
  if (const auto* number = std::get_if<std::int64_t>(&key)) {
    return siphash(kHashKey, number, sizeof *number);
  }
  const auto* text = std::get_if<std::string_view>(&key);
  return ~siphash(kHashKey, text->data(), text->size());
}

constexpr std::uint64_t slot_of(std::uint64_t hash, std::uint64_t place) noexcept {
  return (hash & ~kPlace) | (place + 1);
}

void put(std::string& out, std::uint64_t value) {
  std::array<char, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  out.append(bytes.data(), bytes.size());
}

}  // namespace

std::uint64_t KeyTable::word(std::uint64_t offset) const noexcept {
  return read_once(bytes_.data() + offset);
}

KeyTable::KeyTable(std::span<const std::byte> bytes) : bytes_(bytes) {
  if (bytes.size() < kHead || word(0) != kKeysMagic) corrupt("the header of the keys is invalid");
  count_ = word(8);
  slots_ = word(16);
  const std::uint64_t size = word(24);
  if (size > bytes.size() || !std::has_single_bit(slots_) || slots_ > bytes.size() / 8 ||
      count_ > slots_ / 2 || !fits(kHead + slots_ * 8, count_ * kRecord, size)) {
    corrupt("the table of keys is truncated");
  }
  bytes_ = bytes.first(size);
  records_ = kHead + slots_ * 8;
}

std::optional<std::uint64_t> KeyTable::find(const Key& key) const {
  const std::uint64_t hash = hash_of(key);
  for (std::uint64_t step = 0; step < slots_; ++step) {
    const std::uint64_t slot = word(kHead + ((hash + step) & (slots_ - 1)) * 8);
    if (slot == 0) return std::nullopt;
    const std::uint64_t place = (slot & kPlace) - 1;
    if ((slot & ~kPlace) != (hash & ~kPlace)) continue;
    if (place >= count_) corrupt("a key extends past the end of the table");
    if (at(place).key == key) return place;
  }
  return std::nullopt;
}

KeyTable::Record KeyTable::at(std::uint64_t place) const {
  const std::uint64_t record = records_ + place * kRecord;
  const std::uint64_t value = word(record);
  const std::uint64_t size = word(record + 16);
  if (size == 0) return {static_cast<std::int64_t>(word(record + 8)), value};
  const std::uint64_t offset = word(record + 8);
  if (!fits(offset, size - 1, bytes_.size())) corrupt("a key extends past the end of the table");
  const auto* text = reinterpret_cast<const char*>(bytes_.data() + offset);
  return {std::string_view(text, size - 1), value};
}

bool KeyTableBuilder::same(const Entry& entry, const Key& key) const {
  if (const auto* number = std::get_if<std::int64_t>(&key)) {
    return !entry.is_text && entry.number_or_offset == static_cast<std::uint64_t>(*number);
  }
  const auto text = std::get<std::string_view>(key);
  return entry.is_text && entry.size == text.size() &&
         texts_.compare(entry.number_or_offset, entry.size, text) == 0;
}

bool KeyTableBuilder::add(const Key& key, std::uint64_t value) {
  const std::uint64_t hash = hash_of(key);
  std::uint64_t at = hash & (slots_.size() - 1);
  for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[(slots_[at] & kPlace) - 1];
    if (entry.hash == hash && same(entry, key)) return false;
  }
  slots_[at] = slot_of(hash, entries_.size());
  if (const auto* number = std::get_if<std::int64_t>(&key)) {
    entries_.push_back({hash, false, value, static_cast<std::uint64_t>(*number), 0});
  } else {
    const auto text = std::get<std::string_view>(key);
    entries_.push_back({hash, true, value, texts_.size(), text.size()});
    texts_.append(text);
  }
  if (entries_.size() * 2 > slots_.size()) grow();
  return true;
}

void KeyTableBuilder::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (std::uint64_t place = 0; place < entries_.size(); ++place) {
    std::uint64_t at = entries_[place].hash & (slots_.size() - 1);
    while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot_of(entries_[place].hash, place);
  }
}

std::string KeyTableBuilder::finish() const {
  const std::uint64_t texts = kHead + slots_.size() * 8 + entries_.size() * kRecord;
  std::string out;
  out.reserve(texts + texts_.size());
  for (const std::uint64_t head :
       {kKeysMagic, std::uint64_t{entries_.size()}, std::uint64_t{slots_.size()},
        std::uint64_t{texts + texts_.size()}}) {
    put(out, head);
  }
  for (const std::uint64_t slot : slots_) put(out, slot);
  for (const Entry& entry : entries_) {
    put(out, entry.value);
    put(out, entry.is_text ? texts + entry.number_or_offset : entry.number_or_offset);
    put(out, entry.is_text ? entry.size + 1 : 0);
  }
  return out + texts_;
}

}  // namespace shmtensor
