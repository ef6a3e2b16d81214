// The mappings of a file's data in one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "arena/address_range.hpp"
#include "base/align.hpp"
#include "base/atomic.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// Windows stay mapped until the object is destroyed, so addresses in them stay valid. They may
/// overlap. Published without a lock, so that no fork finds a lock held.
/// Threads: all members may be called simultaneously.
class Windows {
 public:
  Windows() = default;
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;
  ~Windows() {
    for (Window* window = newest_.load(); window != nullptr;) {
      delete std::exchange(window, window->before);
    }
  }

  /// Returns the address of a range of the data; null if no window has all of it.
  [[nodiscard]] std::byte* find(std::uint64_t offset, std::uint64_t size) const noexcept {
    for (const Window* window = newest(); window != nullptr; window = window->before) {
      if (offset >= window->offset && fits(offset - window->offset, size, window->memory.size())) {
        return window->memory.data() + (offset - window->offset);
      }
    }
    return nullptr;
  }

  /// Adds a window that maps the data from `offset` on, unless another thread was faster. `range`
  /// lists its addresses.
  void add(std::uint64_t offset, Mapping memory, AddressRange range = {}) {
    const std::uint64_t size = memory.size();
    std::unique_ptr<Window> window(
        new Window{offset, std::move(memory), std::move(range), newest()});
    do {
      if (find(offset, size) != nullptr) return;
    } while (!newest_.compare_exchange_weak(window->before, window.get()));
    static_cast<void>(window.release());
  }

  [[nodiscard]] int count() const noexcept {
    int count = 0;
    for (const Window* window = newest(); window != nullptr; window = window->before) ++count;
    return count;
  }

 private:
  struct Window {
    std::uint64_t offset;
    Mapping memory;
    AddressRange range;  ///< destroyed before `memory`
    Window* before;
  };
  [[nodiscard]] Window* newest() const noexcept { return newest_.load(std::memory_order_acquire); }

  Atomic<Window*> newest_{nullptr};
};

}  // namespace shmtensor
