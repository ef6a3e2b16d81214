#include "os/fork_mark.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"
#include "support/child.hpp"

namespace shmtensor {
namespace {

using testing::in_child;

// Children of a test are created without the fork handlers of a session. Each body runs in a child,
// so that the process of all tests remains unmarked.

TEST(ForkMark, WithoutMarkNoProcessCountsAsCopy) {
  EXPECT_FALSE(is_raw_copy());
  in_child([] {
    EXPECT_FALSE(is_raw_copy());
    mark_forked_child();
    EXPECT_FALSE(is_raw_copy());
  });
  EXPECT_NO_THROW(refuse_in_raw_copy());
}

TEST(ForkMark, IsClearedInCopiesAndKeptInProcess) {
  in_child([] {
    mark_process();
    EXPECT_FALSE(is_raw_copy());
    in_child([] {
      EXPECT_TRUE(is_raw_copy());
      in_child([] { EXPECT_TRUE(is_raw_copy()); });
      mark_process();
      EXPECT_TRUE(is_raw_copy()) << "only the fork handler changes that";
    });
    EXPECT_FALSE(is_raw_copy());
  });
}

TEST(ForkMark, ForkedChildSetsItsOwnMark) {
  in_child([] {
    mark_process();
    in_child([] {
      mark_forked_child();
      EXPECT_FALSE(is_raw_copy());
      in_child([] { EXPECT_TRUE(is_raw_copy()); });
      EXPECT_FALSE(is_raw_copy());
    });
  });
}

TEST(ForkMark, DepthDiffersFromThatOfEachAncestor) {
  in_child([] {
    mark_process();
    EXPECT_EQ(fork_depth(), 1u);
    in_child([] {
      mark_forked_child();
      EXPECT_EQ(fork_depth(), 2u);
      in_child([] {
        EXPECT_EQ(fork_depth(), 0u) << "a raw copy";
        mark_forked_child();
        EXPECT_EQ(fork_depth(), 3u);
      });
    });
    EXPECT_EQ(fork_depth(), 1u);
  });
}

TEST(ForkMark, ErrorNamesCauseAndRemedy) {
  in_child([] {
    mark_process();
    in_child([] {
      try {
        refuse_in_raw_copy();
        ADD_FAILURE() << "nothing was refused";
      } catch (const SessionError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("created by clone or _Fork"), std::string::npos);
        EXPECT_NE(text.find("Use os.fork or subprocess"), std::string::npos);
      }
    });
  });
}

}  // namespace
}  // namespace shmtensor
