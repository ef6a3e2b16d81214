#include "cuda/copy_plan.hpp"

#include <algorithm>
#include <cstdlib>

namespace shmtensor::cuda {
namespace {

std::vector<Dim> dims_of(Plan& plan, const CopySide& to, const CopySide& from,
                         std::span<const std::int64_t> shape) {
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    Dim dim{shape[i], to.strides[i], from.strides[i]};
    if (dim.to < 0 && dim.from < 0) {
      plan.to += static_cast<std::uint64_t>(dim.to * (dim.size - 1));
      plan.from += static_cast<std::uint64_t>(dim.from * (dim.size - 1));
      dim = {dim.size, -dim.to, -dim.from};
    }
    dims.push_back(dim);
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) {
    return std::abs(a.to) != std::abs(b.to) ? std::abs(a.to) < std::abs(b.to)
                                            : std::abs(a.from) < std::abs(b.from);
  });
  return dims;
}

}  // namespace

Plan plan_of(const CopySide& to, const CopySide& from, std::span<const std::int64_t> shape,
             std::int64_t item_size) {
  Plan plan{.to = to.start, .from = from.start, .width = item_size, .rows = {}, .outer = {}};
  std::vector<Dim>& outer = plan.outer;
  for (const Dim& dim : dims_of(plan, to, from, shape)) {
    if (dim.to == plan.width && dim.from == plan.width) {
      plan.width *= dim.size;
    } else if (!outer.empty() && outer.back().to * outer.back().size == dim.to &&
               outer.back().from * outer.back().size == dim.from) {
      outer.back().size *= dim.size;
    } else {
      outer.push_back(dim);
    }
  }
  auto rows = outer.end();
  for (auto at = outer.begin(); at != outer.end(); ++at) {
    const bool fits = at->to >= plan.width && at->from >= plan.width;
    if (fits && (rows == outer.end() || at->size > rows->size)) rows = at;
  }
  if (rows != outer.end()) {
    plan.rows = *rows;
    outer.erase(rows);
  }
  return plan;
}

std::uint64_t count_calls(const CopySide& to, const CopySide& from,
                          std::span<const std::int64_t> shape, std::int64_t item_size) {
  std::uint64_t calls = 1;
  for (const Dim& dim : plan_of(to, from, shape, item_size).outer) {
    calls *= static_cast<std::uint64_t>(dim.size);
  }
  return calls;
}

}  // namespace shmtensor::cuda
