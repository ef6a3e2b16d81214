#include "os/memfd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "os/mapping.hpp"
#include "os/page_reservation.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

TEST(Memfd, IsCloseOnExecAndHasItsNameInProc) {
  const Fd file = create_memfd("shmtensor-memfd-test");
  EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  const auto found = open_files(::getpid(), "/memfd:shmtensor-memfd-test");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "/memfd:shmtensor-memfd-test (deleted)");
}

TEST(Memfd, SealedFileGrowsButDoesNotShrink) {
  const Fd file = create_memfd("sealed");
  set_file_size(file, 2 * page_size());
  EXPECT_FALSE(is_sealed_against_shrinking(file));
  set_file_size(file, page_size());
  seal_against_shrinking(file);
  EXPECT_TRUE(is_sealed_against_shrinking(file));
  try {
    set_file_size(file, 0);
    ADD_FAILURE() << "it was shortened";
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), EPERM);
  }
  EXPECT_TRUE(reserve_pages(file, page_size(), page_size()));
  EXPECT_EQ(file_size(file), 2 * page_size());
}

TEST(Memfd, DuplicateIsSealed) {
  const Fd file = create_memfd("sealed");
  const Fd copy = file.duplicate();
  seal_against_shrinking(file);
  EXPECT_TRUE(is_sealed_against_shrinking(copy));
}

TEST(Memfd, OtherFilesAreNotSealed) {
  EXPECT_FALSE(is_sealed_against_shrinking(Fd()));
  const auto [one, other] = socket_pair();
  EXPECT_FALSE(is_sealed_against_shrinking(one));
  EXPECT_THROW(seal_against_shrinking(one), OsError);
}

}  // namespace
}  // namespace shmtensor
