// A fixture with a session of its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "support/world.hpp"

namespace shmtensor::testing {

/// Creates a session for each test.
class WorldTest : public ::testing::Test {
 protected:
  const std::unique_ptr<SessionMemory> memory_ = SessionMemory::create(fresh_session());
};

}  // namespace shmtensor::testing
