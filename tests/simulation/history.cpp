#include "simulation/history.hpp"

#include <algorithm>

namespace shmtensor::simulation {
namespace {

bool acquires(std::memory_order order) noexcept {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

}  // namespace

void View::raise(std::uint32_t word, std::uint32_t time) {
  if (word >= times_.size()) times_.resize(word + 1);
  times_[word] = std::max(times_[word], time);
}

void View::join(const View& other) {
  if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
  for (std::size_t i = 0; i < other.times_.size(); ++i) {
    times_[i] = std::max(times_[i], other.times_[i]);
  }
}

void History::clear(bool learns) noexcept {
  learns_ = learns;
  ++run_;
  written_ = 0;
  consistent_.clear();
}

History::Word& History::word(Place place) noexcept {
  std::uint32_t at = static_cast<std::uint32_t>((place >> 2) * 0x9e3779b97f4a7c15u >> 48);
  while (words_[at].place != place && words_[at].place != 0) at = (at + 1) % kWords;
  Word& word = words_[at];
  if (word.run != run_) {
    word.place = place;
    word.run = run_;
    word.index = 0;
    word.newest = 0;
  }
  return word;
}

std::size_t History::contended() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(words_, &History::is_contended));
}

std::uint32_t History::choices(const Word& word, View& view, std::memory_order order) {
  if (word.index == 0) return 1;
  if (order == std::memory_order_seq_cst) view.raise(word.index, consistent_[word.index]);
  const std::uint32_t oldest = view[word.index];
  return std::min(word.newest - oldest + 1, Word::kKept);
}

std::uint64_t History::load(const Word& word, View& view, std::memory_order order,
                            std::uint32_t age, std::uint64_t in_memory) {
  if (word.index == 0) return in_memory;
  const Word::Store& read = slot(word, word.newest - age);
  view.raise(word.index, read.time);
  if (order == std::memory_order_seq_cst) consistent_.raise(word.index, read.time);
  if (acquires(order) && read.has_view) view.join(read.view);
  return read.value;
}

History::Word::Store& History::add(Word& word, View& view, std::uint64_t before,
                                   std::uint64_t value) {
  if (word.index == 0) {
    word.index = ++written_;
    if (stores_.size() < (word.index + 1) * Word::kKept) {
      stores_.resize((word.index + 1) * Word::kKept * 2);
    }
    Word::Store& first = slot(word, 0);
    first.value = before;
    first.time = 0;
    first.has_view = false;
  }
  Word::Store& made = slot(word, ++word.newest);
  made.value = value;
  made.time = word.newest;
  view.raise(word.index, word.newest);
  return made;
}

void History::store(Word& word, View& view, std::memory_order order, std::uint64_t before,
                    std::uint64_t value) {
  Word::Store& made = add(word, view, before, value);
  made.has_view = releases(order);
  if (made.has_view) made.view = view;
  if (order == std::memory_order_seq_cst) consistent_.raise(word.index, made.time);
}

// The store continues the release sequence of the one that was read.
void History::modify(Word& word, View& view, std::memory_order order, std::uint64_t before,
                     std::uint64_t value) {
  const bool continues = word.index != 0 && slot(word, word.newest).has_view;
  if (continues && acquires(order)) view.join(slot(word, word.newest).view);
  Word::Store& made = add(word, view, before, value);
  const Word::Store& read = slot(word, word.newest - 1);
  made.has_view = releases(order) || continues;
  if (releases(order)) {
    made.view = view;
  } else {
    made.view.clear();
  }
  if (continues) made.view.join(read.view);
  if (order == std::memory_order_seq_cst) consistent_.raise(word.index, made.time);
}

}  // namespace shmtensor::simulation
