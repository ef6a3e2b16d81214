#include "base/ids.hpp"

#include <gtest/gtest.h>

namespace shmtensor {
namespace {

TEST(SessionId, HexRoundTrips) {
  const SessionId id{0x0123456789abcdef, 0x00000000000000ff};
  EXPECT_EQ(id.hex(), "0123456789abcdef00000000000000ff");
  EXPECT_EQ(SessionId::parse(id.hex()), id);
  EXPECT_EQ(SessionId::parse("0123456789ABCDEF00000000000000FF"), id);
}

TEST(SessionId, OtherTextIsHashed) {
  const SessionId job = SessionId::parse("slurm-4711");
  EXPECT_TRUE(job);
  EXPECT_EQ(job, SessionId::parse("slurm-4711"));
  EXPECT_NE(job, SessionId::parse("slurm-4712"));
  EXPECT_NE(job.high, job.low);
  EXPECT_TRUE(SessionId::parse(""));
}

TEST(SessionId, MalformedHexIsHashed) {
  const std::string digits(32, '7');
  std::string wrong = digits;
  wrong[31] = 'g';
  EXPECT_NE(SessionId::parse(wrong).high, SessionId::parse(digits).high);
  EXPECT_NE(SessionId::parse(digits + "7").high, SessionId::parse(digits).high);
  EXPECT_NE(SessionId::parse(digits.substr(1)).high, SessionId::parse(digits).high);
}

TEST(SessionId, OnlyZeroMeansNone) {
  EXPECT_FALSE(SessionId{});
  EXPECT_TRUE((SessionId{0, 1}));
  EXPECT_TRUE((SessionId{1, 0}));
}

}  // namespace
}  // namespace shmtensor
