#include "containers/item_table.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "base/align.hpp"
#include "base/error.hpp"
#include "base/read_once.hpp"

namespace shmtensor {
namespace {

[[noreturn]] void corrupt(const std::string& what) {
  throw CorruptData("cannot read a shared list or dict: " + what +
                    "; the shared memory is corrupted. Rebuild the container");
}

}  // namespace

ItemTable::ItemTable(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
  if (pieces_.empty() || pieces_[0].size() < sizeof(ItemsHead)) corrupt("the header is missing");
  const Piece first = pieces_[0];
  std::memcpy(&head_, first.data(), sizeof head_);
  if (head_.magic != kItemsMagic) corrupt("the header does not have the expected magic number");
  if (head_.pieces != pieces_.size()) {
    corrupt(std::to_string(pieces_.size()) + " pieces were given, the header declares " +
            std::to_string(head_.pieces));
  }
  const std::uint64_t room = first.size() - sizeof(ItemsHead);
  if (head_.pieces > room / 8 || head_.count > room / 8 - head_.pieces) {
    corrupt("piece 0 is too short for " + std::to_string(head_.count) + " entries");
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (read_once(first.data() + sizeof(ItemsHead) + i * 8) != pieces_[i].size()) {
      corrupt("piece " + std::to_string(i) + " has " + std::to_string(pieces_[i].size()) +
              " bytes, which differs from the size in the header");
    }
  }
  entries_ = first.data() + sizeof(ItemsHead) + head_.pieces * 8;
}

std::uint64_t ItemTable::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.size();
  return sum;
}

Item ItemTable::at(std::uint64_t index) const {
  const ItemEntry entry{read_once(entries_ + index * 8)};
  if (entry.piece() >= pieces_.size())
    corrupt("item " + std::to_string(index) + " refers to a piece that does not exist");
  const Piece piece = pieces_[entry.piece()];
  std::uint64_t end = piece.size();
  if (index + 1 < head_.count) {
    const ItemEntry next{read_once(entries_ + (index + 1) * 8)};
    if (next.piece() == entry.piece()) end = next.offset();
  }
  if (entry.offset() > end || end > piece.size()) {
    corrupt("item " + std::to_string(index) + " extends past the end of its piece");
  }
  return {entry.form(), entry.piece(), entry.offset(),
          piece.subspan(entry.offset(), end - entry.offset())};
}

BufferedItem BufferedItem::parse(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kFixed = 16;
  if (bytes.size() < kFixed) corrupt("an item with buffers is too short");
  const std::uint64_t count = read_once(bytes.data());
  const std::uint64_t pickle = read_once(bytes.data() + 8);
  if (count > (bytes.size() - kFixed) / sizeof(Buffer)) corrupt("an item has too many buffers");
  const std::uint64_t begin = kFixed + count * sizeof(Buffer);
  if (!fits(begin, pickle, bytes.size())) corrupt("an item's pickle is too long");
  BufferedItem item{bytes.subspan(begin, pickle), {}};
  item.buffers.reserve(count);
  for (const std::byte* at = bytes.data() + kFixed; item.buffers.size() < count;
       at += sizeof(Buffer)) {
    const Buffer buffer{read_once(at), read_once(at + 8)};
    if (!fits(buffer.offset, buffer.size, bytes.size()))
      corrupt("a buffer extends past the end of its item");
    item.buffers.push_back(buffer);
  }
  return item;
}

ArrayItem ArrayItem::parse(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kFixed = 32;
  if (bytes.size() < kFixed) corrupt("an array is too short");
  const std::uint64_t dims = read_once(bytes.data());
  const std::uint64_t order = read_once(bytes.data() + 8);
  const std::uint64_t type = read_once(bytes.data() + 16);
  ArrayItem item;
  item.elements = read_once(bytes.data() + 24);
  if (dims > 64 || order > 1 || !fits(kFixed + dims * 8, type, bytes.size()) ||
      item.elements > bytes.size()) {
    corrupt("the shape of an array is invalid");
  }
  item.fortran = order == 1;
  item.shape = bytes.subspan(kFixed, dims * 8);
  item.type = bytes.subspan(kFixed + dims * 8, type);
  return item;
}

}  // namespace shmtensor
