// What each thread may read from a word: the newest value, or an older one that nothing it has seen
// rules out.
//
// The model is that of views (Kang et al., "A Promising Semantics for Relaxed-Memory Concurrency",
// 2017) without promises. Each store of a word has a time; a thread's view has, for each word, the
// time of the oldest store that the thread may still read. A store with release order carries the
// view of its thread, and a load with acquire order that reads it takes the view over. A
// sequentially consistent load reads no older store than the last sequentially consistent access of
// the word has read or made: they take place in the order of the run.
//
// Not modelled: a store that others see before an older one of its thread which is a
// read-modify-write or sequentially consistent; a load that takes its value from a store that
// depends on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "simulation/places.hpp"

namespace shmtensor::simulation {

class View {
 public:
  [[nodiscard]] std::uint32_t operator[](std::uint32_t word) const noexcept {
    return word < times_.size() ? times_[word] : 0;
  }
  void raise(std::uint32_t word, std::uint32_t time);
  void join(const View& other);
  void clear() noexcept { times_.clear(); }

 private:
  std::vector<std::uint32_t> times_;
};

/// Threads: one.
class History {
 public:
  /// Forgets all stores, for a new run, which `learns` which threads use which words.
  void clear(bool learns) noexcept;

  /// A word that was accessed.
  struct Word {
    static constexpr std::uint32_t kKept = 4;

    struct Store {
      std::uint64_t value = 0;
      std::uint32_t time = 0;
      bool has_view = false;
      View view;
    };

    Place place = 0;
    std::uint32_t run = 0;     ///< in which the rest is valid
    std::uint32_t index = 0;   ///< in views; 0: not written in this run
    std::uint32_t newest = 0;  ///< time of the newest store
    bool was_written = false;  ///< in a run that learned, as the next one
    std::uint8_t threads = 0;  ///< a bit for each thread that accessed it
  };

  Word& word(Place place) noexcept;
  void note_access(Word& word, std::uint32_t thread, bool writes) noexcept {
    if (!learns_) return;
    word.threads |= static_cast<std::uint8_t>(1u << thread);
    word.was_written = word.was_written || writes;
  }
  /// Return true if more than one thread uses the word, and one writes it: the order of the
  /// accesses may matter.
  [[nodiscard]] static bool is_contended(const Word& word) noexcept {
    return word.was_written && (word.threads & (word.threads - 1)) != 0;
  }

  [[nodiscard]] std::size_t contended() const noexcept;

  /// Return the number of values that the thread may read.
  [[nodiscard]] std::uint32_t choices(const Word& word, View& view, std::memory_order order);
  /// Return the value; `age` is less than `choices`, 0 for the newest, which is in memory.
  std::uint64_t load(const Word& word, View& view, std::memory_order order, std::uint32_t age,
                     std::uint64_t in_memory);
  /// `before` is what is in memory.
  void store(Word& word, View& view, std::memory_order order, std::uint64_t before,
             std::uint64_t value);
  /// A load of the newest value and a store in one step.
  void modify(Word& word, View& view, std::memory_order order, std::uint64_t before,
              std::uint64_t value);

 private:
  static constexpr std::uint32_t kWords = 1u << 16;

  [[nodiscard]] Word::Store& slot(const Word& word, std::uint32_t time) noexcept {
    return stores_[word.index * Word::kKept + time % Word::kKept];
  }
  Word::Store& add(Word& word, View& view, std::uint64_t before, std::uint64_t value);

  std::vector<Word> words_{kWords};
  std::vector<Word::Store> stores_;
  View consistent_;  // what sequentially consistent accesses have read or made last
  std::uint32_t run_ = 1;
  std::uint32_t written_ = 0;
  bool learns_ = false;
};

}  // namespace shmtensor::simulation
