#include "os/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include "base/align.hpp"
#include "base/error.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "support/child.hpp"

namespace shmtensor {
namespace {

using testing::exit_of;

Fd file_of(std::uint64_t size) {
  Fd file = create_memfd("shmtensor-mapping-test");
  set_file_size(file, size);
  return file;
}

bool is_mapped(const std::byte* page) {
  unsigned char resident = 0;
  return ::mincore(const_cast<std::byte*>(page), page_size(), &resident) == 0;
}

std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * page_size();
}

// Returns the line "VmFlags:" of the mapping at this address in /proc/self/smaps.
std::string flags_of(const std::byte* address) {
  char first[32];
  std::snprintf(first, sizeof first, "%lx-", reinterpret_cast<unsigned long>(address));
  std::ifstream smaps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(smaps, line);) {
    found = found || line.starts_with(first);
    if (found && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(Mapping, IsAlignedToHugePages) {
  const Fd file = file_of(8 * kMiB);
  for (int i = 0; i < 5; ++i) {
    const Mapping mapping = Mapping::of_file(file, 0, page_size(), Access::read_write);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % (2 * kMiB), 0u);
  }
  const Mapping tail = Mapping::of_file(file, 2 * kMiB, 3 * kMiB, Access::read_write);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tail.data()) % (2 * kMiB), 0u);
  EXPECT_EQ(tail.size(), 3 * kMiB);
}

TEST(Mapping, UnmapsAlignmentPadding) {
  const Fd file = file_of(page_size());
  std::array<Mapping, 8> mappings;
  const std::uint64_t before = address_space();
  for (Mapping& mapping : mappings) {
    mapping = Mapping::of_file(file, 0, 1, Access::read_write);
    EXPECT_EQ(mapping.size(), page_size());
  }
  // Regression: 2 MiB more were reserved for each.
  EXPECT_LT(address_space() - before, 2 * kMiB);
}

TEST(Mapping, SharesTheFile) {
  const Fd file = file_of(4 * kMiB);
  const Mapping a = Mapping::of_file(file, 0, 4 * kMiB, Access::read_write);
  const Mapping b = Mapping::of_file(file, 2 * kMiB, kMiB, Access::read_only);
  a.data()[2 * kMiB + 5] = std::byte{42};
  EXPECT_EQ(b.data()[5], std::byte{42});
}

TEST(Mapping, ReadOnlyMappingRejectsWrites) {
  const Fd file = file_of(page_size());
  EXPECT_EQ(exit_of([&] {
              ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would print a page of text
              const Mapping mapping = Mapping::of_file(file, 0, page_size(), Access::read_only);
              *const_cast<volatile std::byte*>(mapping.data()) = std::byte{1};
            }),
            -SIGSEGV);
}

TEST(Mapping, IsExcludedFromCoreDumps) {
  const Fd file = file_of(page_size());
  const Mapping mapping = Mapping::of_file(file, 0, page_size(), Access::read_write);
  EXPECT_NE(flags_of(mapping.data()).find(" dd "), std::string::npos);
}

TEST(Mapping, MayExtendPastEndOfFile) {
  const Fd file = file_of(page_size());
  const Mapping mapping = Mapping::of_file(file, 0, 64 * kMiB, Access::read_write);
  ASSERT_TRUE(reserve_pages(file, 0, 32 * kMiB));
  mapping.data()[32 * kMiB - 1] = std::byte{9};
  EXPECT_EQ(mapping.data()[32 * kMiB - 1], std::byte{9});
}

TEST(Mapping, MoveReleaseAndAdoptTransferOwnership) {
  Mapping first = Mapping::anonymous(100);
  EXPECT_EQ(first.size(), page_size());
  std::byte* const data = first.data();
  data[99] = std::byte{7};
  Mapping second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): under test
  EXPECT_EQ(second.data(), data);

  Mapping third = Mapping::anonymous(100);
  std::byte* const dropped = third.data();
  third = std::move(second);
  EXPECT_FALSE(is_mapped(dropped));
  EXPECT_EQ(third.data()[99], std::byte{7});

  const std::uint64_t size = third.size();
  std::byte* const given = third.release();
  EXPECT_FALSE(third);
  EXPECT_TRUE(is_mapped(given));
  {
    const Mapping adopted = Mapping::adopt(given, size);
  }
  EXPECT_FALSE(is_mapped(given));
}

TEST(Mapping, ErrorNamesTheLimits) {
  try {
    const Mapping mapping = Mapping::anonymous(std::uint64_t{1} << 60);
    ADD_FAILURE() << "an exbibyte was mapped";
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), ENOMEM);
    EXPECT_NE(std::string(error.what()).find("RLIMIT_AS"), std::string::npos);
  }
  EXPECT_THROW(Mapping::of_file(Fd(), 0, page_size(), Access::read_only), OsError);
}

// The kernel filled the tables of an arena, 290 MiB, for a tensor of 80 bytes.
TEST(Mapping, IsNotPopulatedInAProcessThatLocksItsMemory) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (limit.rlim_cur < 16 * kMiB && ::geteuid() != 0) GTEST_SKIP() << "RLIMIT_MEMLOCK is small";
  EXPECT_EQ(exit_of([&] {
              const Fd file = file_of(kMiB);
              ASSERT_EQ(::mlockall(MCL_FUTURE), 0);
              const Mapping mapping = Mapping::of_file(file, 0, kMiB, Access::read_write);
              const Mapping view = Mapping::of_file(file, 0, kMiB, Access::read_only);
              EXPECT_EQ(file_usage(file), 0u);
              mapping.data()[10 * page_size()] = std::byte{3};
              EXPECT_EQ(file_usage(file), page_size());
              EXPECT_EQ(view.data()[10 * page_size()], std::byte{3});
              const Mapping own = Mapping::anonymous(kMiB);
              unsigned char resident = 1;
              EXPECT_EQ(::mincore(own.data() + 9 * page_size(), page_size(), &resident), 0);
              EXPECT_EQ(resident & 1, 0);
              own.data()[9 * page_size()] = std::byte{1};
            }),
            0);
}

TEST(Mapping, PopulateAllocatesHoles) {
  const Fd file = file_of(kMiB);
  const Mapping mapping = Mapping::of_file(file, 0, kMiB, Access::read_write);
  EXPECT_EQ(file_usage(file), 0u);
  if (!populate(mapping.data() + 10, 2 * page_size())) {
    GTEST_SKIP() << "the kernel is older than 5.14";
  }
  // From the page of the first byte to that of the last.
  EXPECT_EQ(file_usage(file), 3 * page_size());
}

}  // namespace
}  // namespace shmtensor
