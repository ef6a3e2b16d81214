// A range of addresses that AddressMap lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shmtensor {

class Arena;

/// Listed from its construction, before any object can refer to memory in the range, to its
/// destruction, before the range is unmapped. Move-only; empty if default-constructed.
/// Threads: one.
class AddressRange {
 public:
  AddressRange() noexcept = default;
  /// Memory of an arena: its data from `offset` on.
  AddressRange(const std::byte* begin, std::uint64_t size, Arena& arena, std::uint64_t offset);
  /// Memory that has one object.
  AddressRange(const std::byte* begin, std::uint64_t size, void* object);
  AddressRange(AddressRange&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)) {}
  AddressRange& operator=(AddressRange&& other) noexcept {
    std::swap(begin_, other.begin_);
    return *this;
  }
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange();

 private:
  const std::byte* begin_ = nullptr;
};

}  // namespace shmtensor
