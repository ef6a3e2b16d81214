#include "os/fork_mark.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"
#include "support/child.hpp"
#include "support/scarce_heap.hpp"

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

// Regression: the process ended because there was no memory for the text of the error.
TEST(ForkMark, IsNotNeededWithoutMemory) {
  in_child([] {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
    const rlimit none{.rlim_cur = 1, .rlim_max = limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
    {
      const testing::ScarceHeap heap(0);
      mark_process();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    EXPECT_FALSE(is_raw_copy());
    EXPECT_EQ(fork_mark::place.load(), &fork_mark::none);
  });
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
