// Reads a SharedList's items and a SharedDict's keys from damaged memory, and a handle from any
// bytes: each is an item, a key or an error, and nothing outside of the memory is read.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "containers/item_table.hpp"
#include "containers/key_table.hpp"
#include "input.hpp"
#include "session/handle.hpp"

using namespace shmtensor;

namespace {

// Aligned like shared memory, and of exact size, so that AddressSanitizer detects any read past it.
std::vector<std::byte> copy_of(std::span<const std::uint8_t> bytes) {
  std::vector<std::byte> copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

volatile std::size_t g_seen;

void look_at(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) g_seen = g_seen + static_cast<std::size_t>(byte);
}

void read_item(std::span<const std::byte> bytes, ItemForm form) {
  look_at(bytes);
  if (form == ItemForm::buffered) {
    const BufferedItem item = BufferedItem::parse(bytes);
    look_at(item.pickle);
    for (const auto& buffer : item.buffers) look_at(bytes.subspan(buffer.offset, buffer.size));
  } else if (form == ItemForm::array) {
    const ArrayItem item = ArrayItem::parse(bytes);
    look_at(item.shape);
    look_at(item.type);
    look_at(bytes.subspan(item.elements));
  }
}

void read_keys(std::span<const std::byte> bytes) {
  const KeyTable table(bytes);
  for (std::uint64_t place = 0; place < table.size() && place < 64; ++place) {
    static_cast<void>(table.find(table.at(place).key));
  }
  static_cast<void>(table.find(std::int64_t{7}));
  static_cast<void>(table.find(std::string_view("a key")));
}

// The magic number and the sizes of the pieces would reject nearly all inputs, so they are
// corrected.
void read_items(std::vector<std::byte>& first, const std::vector<std::byte>& second) {
  std::vector<ItemTable::Piece> pieces{first};
  if (!second.empty()) pieces.emplace_back(second);
  if (first.size() >= sizeof(ItemsHead) + pieces.size() * 8) {
    const auto correct = [&](std::size_t offset, std::uint64_t word) {
      std::memcpy(first.data() + offset, &word, sizeof word);
    };
    correct(offsetof(ItemsHead, magic), kItemsMagic);
    correct(offsetof(ItemsHead, pieces), pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      correct(sizeof(ItemsHead) + i * 8, pieces[i].size());
    }
  }
  const ItemTable table(std::move(pieces));
  for (std::uint64_t index = 0; index < table.size() && index < 64; ++index) {
    const Item item = table.at(index);
    if (item.form == ItemForm::nested) {
      read_keys(item.bytes);
    } else {
      read_item(item.bytes, item.form);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto kind = input.take<std::uint8_t>();
  const auto second_size = input.take<std::uint8_t>();
  const std::vector<std::byte> second = copy_of(input.take_bytes(second_size));
  std::vector<std::byte> first = copy_of(input.take_bytes(size));
  try {
    switch (kind % 5) {
      case 0:
        read_items(first, second);
        break;
      case 1:
        read_keys(first);
        break;
      case 2:
        read_item(first, ItemForm::buffered);
        break;
      case 3:
        read_item(first, ItemForm::array);
        break;
      default:
        static_cast<void>(decode(first));
        check_signature(SipKey{}, first);
    }
  } catch (const Error&) {
    // the expected result for a damaged table
  }
  return 0;
}
