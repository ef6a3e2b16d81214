#include "base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace shmtensor {
namespace {

TEST(Error, OsErrorNamesOperationAndSystemError) {
  try {
    errno = ENOENT;
    throw_os("open the gate");
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), ENOENT);
    EXPECT_STREQ(error.what(), "cannot open the gate: No such file or directory (ENOENT)");
  }
}

TEST(Error, ExplicitCodeOverridesErrno) {
  try {
    errno = ENOENT;
    throw_os("open the gate", EMFILE);
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), EMFILE);
    EXPECT_NE(std::string(error.what()).find("(EMFILE)"), std::string::npos);
  }
}

TEST(Error, UnknownCodeIsPrintedAsNumber) {
  EXPECT_NE(errno_text(EXDEV).find("(errno " + std::to_string(EXDEV) + ")"), std::string::npos);
}

TEST(Error, AllErrorsShareOneBase) {
  EXPECT_THROW(throw OsError(1, ""), Error);
  EXPECT_THROW(throw OutOfMemory(""), Error);
  EXPECT_THROW(throw StaleHandle(""), Error);
  EXPECT_THROW(throw SessionError(""), Error);
}

}  // namespace
}  // namespace shmtensor
