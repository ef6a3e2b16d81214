// Fails a test that leaks resources.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace shmtensor::testing {

/// The system resources of this process and of this run's sessions.
struct Belongings {
  std::map<int, std::string> files;  ///< open descriptors
  int mappings = 0;                  ///< of shmtensor's files
  std::vector<std::string> names;    ///< in /dev/shm
  std::vector<std::string> sockets;  ///< of managers
  bool has_children = false;         ///< running, or not yet reaped

  static Belongings now();

  /// Returns one line for each resource that is new.
  [[nodiscard]] std::vector<std::string> since(const Belongings& before) const;
};

/// Compares the resources before and after each test.
class LeakGuard : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo& test) override;
  void OnTestEnd(const ::testing::TestInfo& test) override;

 private:
  Belongings before_;
};

}  // namespace shmtensor::testing
