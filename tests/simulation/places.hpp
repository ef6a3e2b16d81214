// Which words of memory are the same word: two processes map a file at different addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace shmtensor::simulation {

/// A word of memory: its file and offset, or its address if it is private to a process.
using Place = std::uint64_t;

/// Threads: one. There is one object.
class Places {
 public:
  static Places& get();

  /// Of a shared mapping.
  void note_mapped(const void* data, std::size_t size, std::uint64_t inode, std::uint64_t offset);
  void note_unmapped(const void* data, std::size_t size);

  [[nodiscard]] Place of(const void* address) noexcept;

  /// Names words for the trace.
  void name(const void* address, std::string name) { names_[of(address)] = std::move(name); }
  [[nodiscard]] bool has_name(Place place) const { return names_.contains(place); }
  [[nodiscard]] std::string text_of(Place place) const;

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    Place first;
  };

  std::vector<Range> ranges_;  // in order; they do not overlap
  std::size_t last_ = 0;
  std::vector<std::uint64_t> files_;
  std::unordered_map<Place, std::string> names_;
};

}  // namespace shmtensor::simulation
