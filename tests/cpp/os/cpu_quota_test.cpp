#include "os/cpu_quota.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"

namespace shmtensor {
namespace {

/// A folder with a few files of /proc and /sys/fs/cgroup.
class CpuQuotaTest : public ::testing::Test {
 protected:
  ~CpuQuotaTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  /// The process is in group /a/b of version 2.
  void use_version_2(const std::string& cpu_max) const {
    write("/proc/self/cgroup", "0::/a/b\n");
    write("/sys/fs/cgroup/a/b/cpu.max", cpu_max);
  }
  [[nodiscard]] double quota() const { return read_cpu_quota(root_); }

  static std::string fresh_folder() {
    std::string name = std::filesystem::temp_directory_path() / "cpu-quota-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw_os("make the folder " + name);
    return name;
  }

  const std::string root_ = fresh_folder();
};

TEST_F(CpuQuotaTest, IsThatOfTheGroup) {
  use_version_2("150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuotaTest, IsTheLeastOfAllAncestors) {
  use_version_2("150000 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "25000 50000\n");
  EXPECT_EQ(quota(), 0.5) << "the parent is stricter";
  write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1) << "the group that is mounted counts";
}

TEST_F(CpuQuotaTest, IsNoneAtMax) {
  use_version_2("max 100000\n");
  EXPECT_EQ(quota(), kNoCpuQuota);
}

TEST_F(CpuQuotaTest, IsNoneInMalformedFiles) {
  for (const char* text : {"", "\n", "100000", "many few", "100000 0", "-1 100000", "0 100000",
                           "99999999999999999999999 100000", "100000 x"}) {
    use_version_2(text);
    EXPECT_EQ(quota(), kNoCpuQuota) << text;
  }
  use_version_2("100000 100000\n");
  for (const char* text :
       {"", "nonsense\n", "0:\n", "0::\n", "0::a/b\n", "::::\n", "7:cpuset:/a/b\n"}) {
    write("/proc/self/cgroup", text);
    EXPECT_EQ(quota(), kNoCpuQuota) << text;
  }
}

TEST_F(CpuQuotaTest, IsNoneWithoutFiles) {
  EXPECT_EQ(quota(), kNoCpuQuota) << "no group";
  std::filesystem::remove_all(root_);
  EXPECT_EQ(quota(), kNoCpuQuota);
}

TEST_F(CpuQuotaTest, IsReadInVersion1) {
  write("/proc/self/cgroup", "9:cpuset:/\n3:cpu,cpuacct:/a/b\n0::/\n");
  write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), kNoCpuQuota) << "-1 is none";
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(quota(), kNoCpuQuota) << "the period is missing";
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "20000\n");
  EXPECT_EQ(quota(), 0.2);
}

// As in a container, whose own group is mounted.
TEST_F(CpuQuotaTest, IsFoundInAMountOfAGroup) {
  write("/proc/self/cgroup", "3:cpu:/box/1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST(CpuQuota, IsTheSameAtEachCall) {
  EXPECT_GT(cpu_quota(), 0);
  EXPECT_EQ(cpu_quota(), cpu_quota());
  EXPECT_EQ(cpu_quota(), read_cpu_quota(""));
}

}  // namespace
}  // namespace shmtensor
