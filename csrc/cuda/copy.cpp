#include "cuda/copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/align.hpp"
#include "cuda/contexts.hpp"

namespace shmtensor::cuda {
namespace {

// --- the order and the driver calls in which a strided array is copied ---

struct Dim {
  std::int64_t size = 1;
  std::int64_t to = 0;  ///< bytes from one element to the next
  std::int64_t from = 0;
};

/// The same elements in an order that takes few calls. The order does not matter, because the two
/// sides do not overlap.
struct Plan {
  std::uint64_t to = 0;  ///< offset of the first element
  std::uint64_t from = 0;
  std::int64_t width = 0;  ///< bytes that are contiguous on both sides
  Dim rows;                ///< rows of that width in one call
  std::vector<Dim> outer;  ///< one call each
};

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

// --- the calls ---

constexpr std::uint64_t kFirstFill = 64 * kKiB;

// The calls of one copy or fill, in a context that can address its memory: in a stream of this
// library, or, in a context of another library, in its default stream. They read and write memory
// of the caller, so they are complete before a function returns or throws.
class Queue {
 public:
  Queue(const Gpu& gpu, ContextHandle context)
      : gpu_(gpu),
        current_(gpu, context),
        stream_(context == gpu.context() ? gpu.stream() : legacy_stream()) {}
  ~Queue() {
    if (!waited_) static_cast<void>(driver().cuStreamSynchronize(stream_));
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] const Driver& driver() const noexcept { return gpu_.driver(); }
  [[nodiscard]] StreamHandle stream() const noexcept { return stream_; }
  void wait() {
    waited_ = true;
    driver().check(driver().cuStreamSynchronize(stream_), "wait for a copy" + on(gpu_));
  }

 private:
  const Gpu& gpu_;
  Current current_;
  StreamHandle stream_;
  bool waited_ = false;
};

// The context that can address all device memory of a copy: virtual memory is in each context,
// other memory in its own one.
ContextHandle context_for(const Gpu& gpu, const CopySide& to, const CopySide& from) {
  const ContextHandle context = to.on_device ? context_of(gpu, to.start) : gpu.context();
  return context == gpu.context() && from.on_device ? context_of(gpu, from.start) : context;
}

Result copy_run(const Queue& queue, const CopySide& to, const CopySide& from, std::uint64_t size) {
  const Driver& driver = queue.driver();
  if (to.on_device && from.on_device) {
    return driver.cuMemcpyDtoDAsync_v2(to.start, from.start, size, queue.stream());
  }
  if (to.on_device) {
    return driver.cuMemcpyHtoDAsync_v2(to.start, reinterpret_cast<const void*>(from.start), size,
                                       queue.stream());
  }
  return driver.cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(to.start), from.start, size,
                                     queue.stream());
}

Copy2D::Side place_of(const CopySide& side, std::int64_t pitch) {
  Copy2D::Side place{};
  place.type = side.on_device ? kMemoryTypeDevice : kMemoryTypeHost;
  place.host = side.on_device ? nullptr : reinterpret_cast<const void*>(side.start);
  place.device = side.on_device ? side.start : 0;
  place.pitch = static_cast<std::size_t>(pitch);
  return place;
}

Result copy_rows(const Queue& queue, CopySide to, CopySide from, std::int64_t width,
                 const Dim& rows) {
  const auto bytes = static_cast<std::size_t>(width);
  if (rows.size > 1) {
    const Copy2D all{.from = place_of(from, rows.from),
                     .to = place_of(to, rows.to),
                     .width = bytes,
                     .height = static_cast<std::size_t>(rows.size)};
    const Result code = queue.driver().cuMemcpy2DAsync_v2(&all, queue.stream());
    // The driver may refuse a distance that exceeds its limit, or that its own allocator would not
    // choose.
    if (code != kInvalidValue) return code;
  }
  for (std::int64_t row = 0; row < rows.size; ++row) {
    if (const Result code = copy_run(queue, to, from, bytes); code != kSuccess) return code;
    to.start += static_cast<std::uint64_t>(rows.to);
    from.start += static_cast<std::uint64_t>(rows.from);
  }
  return kSuccess;
}

}  // namespace

void copy(const Gpu& gpu, const CopySide& to, const CopySide& from,
          std::span<const std::int64_t> shape, std::int64_t item_size) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const Plan plan = plan_of(to, from, shape, item_size);
  Queue queue(gpu, context_for(gpu, to, from));
  CopySide target{plan.to, {}, to.on_device};
  CopySide source{plan.from, {}, from.on_device};
  std::vector<std::int64_t> index(plan.outer.size(), 0);
  std::size_t i = 0;
  do {
    const Result code = copy_rows(queue, target, source, plan.width, plan.rows);
    gpu.driver().check(code, "copy " + std::to_string(plan.width * plan.rows.size) + " bytes " +
                                 (to.on_device ? "to" : "from") +
                                 " cuda:" + std::to_string(gpu.number()));
    for (i = 0; i < index.size(); ++i) {
      const Dim& dim = plan.outer[i];
      const std::int64_t step = ++index[i] < dim.size ? 1 : 1 - dim.size;
      target.start += static_cast<std::uint64_t>(dim.to * step);
      source.start += static_cast<std::uint64_t>(dim.from * step);
      if (step == 1) break;
      index[i] = 0;
    }
  } while (i < index.size());
  queue.wait();
}

std::uint64_t count_calls(const CopySide& to, const CopySide& from,
                          std::span<const std::int64_t> shape, std::int64_t item_size) {
  std::uint64_t calls = 1;
  for (const Dim& dim : plan_of(to, from, shape, item_size).outer) {
    calls *= static_cast<std::uint64_t>(dim.size);
  }
  return calls;
}

void fill(const Gpu& gpu, DevicePtr to, const std::byte* item, std::uint64_t item_size,
          std::uint64_t count) {
  const std::uint64_t size = item_size * count;
  if (size == 0) return;
  const Driver& driver = gpu.driver();
  const std::string what =
      "fill " + std::to_string(size) + " bytes of cuda:" + std::to_string(gpu.number());
  std::vector<std::byte> first;
  Queue queue(gpu, context_of(gpu, to));
  const bool one_byte =
      std::all_of(item, item + item_size, [item](std::byte byte) { return byte == *item; });
  if (one_byte) {
    driver.check(
        driver.cuMemsetD8Async(to, static_cast<unsigned char>(*item), size, queue.stream()), what);
  } else {
    // Copies the first items from the host, then doubles them on the device.
    const std::uint64_t items = std::min(count, std::max<std::uint64_t>(1, kFirstFill / item_size));
    first.reserve(items * item_size);
    for (std::uint64_t i = 0; i < items; ++i) first.insert(first.end(), item, item + item_size);
    driver.check(driver.cuMemcpyHtoDAsync_v2(to, first.data(), first.size(), queue.stream()), what);
    for (std::uint64_t done = first.size(); done < size; done *= 2) {
      const std::uint64_t next = std::min(done, size - done);
      driver.check(driver.cuMemcpyDtoDAsync_v2(to + done, to, next, queue.stream()), what);
    }
  }
  queue.wait();
}

}  // namespace shmtensor::cuda
