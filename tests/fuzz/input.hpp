// Numbers and bytes from the fuzzer's input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shmtensor::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

  /// Zero, or only its lower bytes, at the end of the input.
  template <typename Number>
  Number take() noexcept {
    Number number{};
    const std::span<const std::uint8_t> bytes = take_bytes(sizeof number);
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }

  std::span<const std::uint8_t> take_bytes(std::size_t most) noexcept {
    const std::size_t size = std::min(most, rest_.size());
    const auto bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace shmtensor::fuzz
