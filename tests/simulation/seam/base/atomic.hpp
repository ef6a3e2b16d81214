// Atomics of which a simulated run orders the accesses; csrc/base/atomic.hpp has those of the
// product. Without a run they are plain memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simulation/run.hpp"

namespace shmtensor {

/// The accesses to a word at any place.
template <typename T>
class AtomicRef {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  using Order = std::memory_order;
  using Run = simulation::Run;

 public:
  using value_type = T;

  explicit AtomicRef(T& at) noexcept : at_(&at) {}

  T load(Order order = Order::seq_cst) const noexcept {
    Run* const run = Run::running();
    return run == nullptr ? *at_ : from_bits(run->load(at_, sizeof(T), order));
  }
  void store(T value, Order order = Order::seq_cst) const noexcept {
    Run* const run = Run::running();
    if (run == nullptr) {
      *at_ = value;
      return;
    }
    run->before_change(at_);
    const std::uint64_t before = bits(*at_);
    *at_ = value;
    run->note_store(at_, order, before, bits(value));
  }
  T exchange(T value, Order order = Order::seq_cst) const noexcept {
    return change("exchange", order, [value](T) { return value; });
  }
  T fetch_add(T by, Order order = Order::seq_cst) const noexcept {
    return change("add", order, [by](T old) { return static_cast<T>(old + by); });
  }
  T fetch_sub(T by, Order order = Order::seq_cst) const noexcept {
    return change("subtract", order, [by](T old) { return static_cast<T>(old - by); });
  }
  T fetch_or(T mask, Order order = Order::seq_cst) const noexcept {
    return change("or", order, [mask](T old) { return static_cast<T>(old | mask); });
  }
  T fetch_and(T mask, Order order = Order::seq_cst) const noexcept {
    return change("and", order, [mask](T old) { return static_cast<T>(old & mask); });
  }
  bool compare_exchange_strong(T& expected, T desired, Order success,
                               Order failure) const noexcept {
    Run* const run = Run::running();
    if (run != nullptr) run->before_change(at_);
    const T before = *at_;
    if (std::memcmp(&before, &expected, sizeof(T)) != 0) {
      if (run != nullptr) run->note_load(at_, failure, bits(before));
      expected = before;
      return false;
    }
    *at_ = desired;
    if (run != nullptr) run->note_change(at_, "swap", success, bits(before), bits(desired));
    return true;
  }
  bool compare_exchange_strong(T& expected, T desired,
                               Order order = Order::seq_cst) const noexcept {
    return compare_exchange_strong(expected, desired, order, of_failure(order));
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure) const noexcept {
    return compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = Order::seq_cst) const noexcept {
    return compare_exchange_strong(expected, desired, order);
  }

 private:
  template <typename Change>
  T change(const char* what, Order order, Change&& change) const noexcept {
    Run* const run = Run::running();
    if (run != nullptr) run->before_change(at_);
    const T before = *at_;
    *at_ = change(before);
    if (run != nullptr) run->note_change(at_, what, order, bits(before), bits(*at_));
    return before;
  }
  static Order of_failure(Order order) noexcept {
    if (order == Order::acq_rel) return Order::acquire;
    return order == Order::release ? Order::relaxed : order;
  }
  static std::uint64_t bits(const T& value) noexcept {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }
  static T from_bits(std::uint64_t bits) noexcept {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }

  T* at_;
};

template <typename T>
class Atomic {
  using Order = std::memory_order;

 public:
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic() noexcept = default;
  constexpr Atomic(T value) noexcept : value_(value) {}  // NOLINT: as std::atomic
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(Order order = Order::seq_cst) const noexcept { return ref().load(order); }
  void store(T value, Order order = Order::seq_cst) noexcept { ref().store(value, order); }
  T exchange(T value, Order order = Order::seq_cst) noexcept {
    return ref().exchange(value, order);
  }
  T fetch_add(T by, Order order = Order::seq_cst) noexcept { return ref().fetch_add(by, order); }
  T fetch_sub(T by, Order order = Order::seq_cst) noexcept { return ref().fetch_sub(by, order); }
  T operator+=(T by) noexcept { return static_cast<T>(fetch_add(by) + by); }
  T operator-=(T by) noexcept { return static_cast<T>(fetch_sub(by) - by); }
  T fetch_or(T mask, Order order = Order::seq_cst) noexcept { return ref().fetch_or(mask, order); }
  T fetch_and(T mask, Order order = Order::seq_cst) noexcept {
    return ref().fetch_and(mask, order);
  }
  bool compare_exchange_strong(T& expected, T desired, auto... orders) noexcept {
    return ref().compare_exchange_strong(expected, desired, orders...);
  }
  bool compare_exchange_weak(T& expected, T desired, auto... orders) noexcept {
    return ref().compare_exchange_weak(expected, desired, orders...);
  }

 private:
  AtomicRef<T> ref() const noexcept { return AtomicRef<T>(value_); }

  alignas(sizeof(T)) mutable T value_{};
};

}  // namespace shmtensor
