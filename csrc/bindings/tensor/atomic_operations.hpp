// Atomic operations on elements that other processes may use: on one, and on those at arrays of
// indices.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/atomic.hpp"
#include "base/read_once.hpp"

namespace shmtensor::python {

enum class Operation : std::uint8_t {
  add,
  exchange,
  minimum,
  maximum,
  load,
  store,
  compare_exchange,
};
inline constexpr std::array kOperations = {"add",  "exchange", "minimum",         "maximum",
                                           "load", "store",    "compare_exchange"};

inline std::optional<std::size_t> operation_number(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (name == kOperations[i]) return i;
  }
  return {};
}

/// Returns an array of what visit.operator()<operation>() returns for each.
template <typename Visitor>
constexpr auto for_each_operation(Visitor&& visit) noexcept {
  return [&]<std::size_t... kNumbers>(std::index_sequence<kNumbers...>) {
    return std::array { visit.template operator()<static_cast<Operation>(kNumbers)>()... };
  }(std::make_index_sequence<kOperations.size()>{});
}

/// Return true if the operation is one of T: floats have those that need no comparison.
template <Operation kOperation, typename T>
inline constexpr bool kSupported =
    std::is_integral_v<T> ||
    (kOperation != Operation::minimum && kOperation != Operation::maximum &&
     kOperation != Operation::compare_exchange);

/// Returns the previous value; compare_exchange: true if it has stored `value`. Each operation
/// takes effect as a whole, or not at all if the process is killed. Integers wrap around.
template <Operation kOperation, typename T>
auto apply(T& element, T value, [[maybe_unused]] T expected) noexcept {
  const AtomicRef<T> shared(element);
  if constexpr (kOperation == Operation::add) {
    return shared.fetch_add(value);
  } else if constexpr (kOperation == Operation::exchange) {
    return shared.exchange(value);
  } else if constexpr (kOperation == Operation::load) {
    return shared.load();
  } else if constexpr (kOperation == Operation::store) {
    shared.store(value);
    return value;
  } else if constexpr (kOperation == Operation::compare_exchange) {
    return shared.compare_exchange_strong(expected, value);
  } else {
    constexpr bool kLess = kOperation == Operation::minimum;
    T seen = shared.load();
    while ((kLess ? value < seen : value > seen) && !shared.compare_exchange_weak(seen, value)) {
    }
    return seen;
  }
}

/// Return true if the element is another number; two NaNs are the same.
template <typename T>
bool differs(const std::byte* element, T old) noexcept {
  // Reading through the reference writes nothing.
  const T now = AtomicRef<T>(*reinterpret_cast<T*>(const_cast<std::byte*>(element))).load();
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(now) && std::isnan(old)) return false;
  }
  return now != old;
}

/// An axis of an array, and indices along it, which another process may change at any time.
struct IndexedAxis {
  std::int64_t size;
  std::int64_t stride;
  const std::byte* indices;

  /// Return true if it is in the axis; negative ones count from the end.
  [[nodiscard]] bool has(std::int64_t index) const noexcept {
    return index >= -size && index < size;
  }
  [[nodiscard]] std::int64_t index(std::int64_t i) const noexcept {
    return static_cast<std::int64_t>(read_once(indices + i * std::int64_t{sizeof i}));
  }
  /// Bytes from the first element.
  [[nodiscard]] std::int64_t offset(std::int64_t index) const noexcept {
    return (index < 0 ? index + size : index) * stride;
  }
};

struct OutsideIndex {
  std::size_t axis;
  std::int64_t index;
};

/// The first of `count` indices that is not in its axis.
inline std::optional<OutsideIndex> find_outside(std::span<const IndexedAxis> axes,
                                                std::int64_t count) noexcept {
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = axes[axis].index(i);
      if (!axes[axis].has(index)) return OutsideIndex{axis, index};
    }
  }
  return {};
}

/// The operands of each element, which need not be aligned; a step of 0: the same for all.
struct Operands {
  const std::byte* values;
  std::int64_t value_step;
  const std::byte* expected;
  std::int64_t expected_step;
  std::byte* results;  ///< what `apply` returns, or null
};

template <Operation kOperation, typename T, typename Locate>
std::optional<OutsideIndex> apply_each(std::int64_t count, const Operands& operands,
                                       Locate&& locate) noexcept {
  const auto operand = [](const std::byte* place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    return value;
  };
  std::optional<OutsideIndex> outside;
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const place = locate(i, outside);
    if (place == nullptr) break;
    const auto result = apply<kOperation>(*reinterpret_cast<T*>(place),
                                          operand(operands.values + i * operands.value_step),
                                          operand(operands.expected + i * operands.expected_step));
    if (operands.results != nullptr) {
      std::memcpy(operands.results + i * std::int64_t{sizeof result}, &result, sizeof result);
    }
  }
  return outside;
}

/// Applies the operation to the elements at `count` indices, after each other. Returns an index
/// that is not in its axis, and then changes nothing, unless the indices change meanwhile: no
/// element outside is ever used.
template <Operation kOperation, typename T>
std::optional<OutsideIndex> apply_all(std::byte* first, std::span<const IndexedAxis> axes,
                                      std::int64_t count, const Operands& operands) noexcept {
  if (const auto outside = find_outside(axes, count)) return outside;
  if (axes.size() == 1) {
    const auto on_axis = [first, axis = axes[0]](std::int64_t i, auto& outside) -> std::byte* {
      const std::int64_t index = axis.index(i);
      if (axis.has(index)) return first + axis.offset(index);
      outside = {0, index};
      return nullptr;
    };
    return apply_each<kOperation, T>(count, operands, on_axis);
  }
  const auto anywhere = [first, axes](std::int64_t i, auto& outside) -> std::byte* {
    std::byte* place = first;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const std::int64_t index = axes[axis].index(i);
      if (!axes[axis].has(index)) {
        outside = {axis, index};
        return nullptr;
      }
      place += axes[axis].offset(index);
    }
    return place;
  };
  return apply_each<kOperation, T>(count, operands, anywhere);
}

}  // namespace shmtensor::python
