#include "cuda/copy.hpp"

#include <algorithm>
#include <vector>

#include "base/align.hpp"

namespace shmtensor::cuda {
namespace {

constexpr std::uint64_t kFirstFill = 64 * kKiB;

// How many of the last dimensions lie on this side as one run, and how long that is.
struct Run {
  std::size_t dims = 0;
  std::int64_t bytes = 0;
};
Run common_run(const Side& a, const Side& b, std::span<const std::int64_t> shape,
               std::int64_t item_size) {
  Run run{0, item_size};
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && (a.strides[i] != run.bytes || b.strides[i] != run.bytes)) break;
    run.bytes *= shape[i];
    ++run.dims;
  }
  return run;
}

void copy_run(const Gpu& gpu, const Side& to, const Side& from, std::uint64_t size) {
  const Driver& driver = gpu.driver();
  Result code = kSuccess;
  if (to.on_device && from.on_device) {
    code = driver.cuMemcpyDtoDAsync_v2(to.start, from.start, size, gpu.stream());
  } else if (to.on_device) {
    code = driver.cuMemcpyHtoDAsync_v2(to.start, reinterpret_cast<const void*>(from.start), size,
                                       gpu.stream());
  } else {
    code = driver.cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(to.start), from.start, size,
                                       gpu.stream());
  }
  driver.check(code, "copy " + std::to_string(size) + " bytes " + (to.on_device ? "to" : "from") +
                         " cuda:" + std::to_string(gpu.number()));
}

}  // namespace

void copy(const Gpu& gpu, const Side& to, const Side& from, std::span<const std::int64_t> shape,
          std::int64_t item_size) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const Current current(gpu);
  const Run run = common_run(to, from, shape, item_size);
  const std::span<const std::int64_t> outer = shape.first(shape.size() - run.dims);
  std::vector<std::int64_t> index(outer.size(), 0);
  Side target = to;
  Side source = from;
  while (true) {
    copy_run(gpu, target, source, static_cast<std::uint64_t>(run.bytes));
    std::size_t i = outer.size();
    while (i-- > 0) {
      const auto step = [&](std::int64_t count) {
        target.start += static_cast<std::uint64_t>(to.strides[i] * count);
        source.start += static_cast<std::uint64_t>(from.strides[i] * count);
      };
      if (++index[i] < outer[i]) {
        step(1);
        break;
      }
      step(1 - outer[i]);
      index[i] = 0;
      if (i == 0) {
        gpu.synchronize_stream();
        return;
      }
    }
    if (outer.empty()) {
      gpu.synchronize_stream();
      return;
    }
  }
}

void fill(const Gpu& gpu, DevicePtr to, const std::byte* item, std::uint64_t item_size,
          std::uint64_t count) {
  const std::uint64_t size = item_size * count;
  if (size == 0) return;
  const Current current(gpu);
  const Driver& driver = gpu.driver();
  const std::string what =
      "fill " + std::to_string(size) + " bytes of cuda:" + std::to_string(gpu.number());
  const bool one_byte =
      std::all_of(item, item + item_size, [item](std::byte byte) { return byte == *item; });
  if (one_byte) {
    driver.check(driver.cuMemsetD8Async(to, static_cast<unsigned char>(*item), size, gpu.stream()),
                 what);
  } else {
    // A first stretch from the host, doubled on the device.
    const std::uint64_t items = std::min(count, std::max<std::uint64_t>(1, kFirstFill / item_size));
    std::vector<std::byte> first;
    first.reserve(items * item_size);
    for (std::uint64_t i = 0; i < items; ++i) first.insert(first.end(), item, item + item_size);
    driver.check(driver.cuMemcpyHtoDAsync_v2(to, first.data(), first.size(), gpu.stream()), what);
    for (std::uint64_t done = first.size(); done < size; done *= 2) {
      const std::uint64_t next = std::min(done, size - done);
      driver.check(driver.cuMemcpyDtoDAsync_v2(to + done, to, next, gpu.stream()), what);
    }
  }
  gpu.synchronize_stream();
}

}  // namespace shmtensor::cuda
