// Replays the inputs that fuzzing has found (tests/fuzz/corpus) without a fuzzer.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int fuzz_tables(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_member(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_memory(const std::uint8_t* data, std::size_t size);

namespace shmtensor {
namespace {

int replay(const std::string& target, int (*fuzz)(const std::uint8_t*, std::size_t)) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SHMTENSOR_CORPUS "/" + target)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(fuzz(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++count;
  }
  return count;
}

TEST(FuzzCorpus, TablesAndHandles) { EXPECT_GT(replay("tables", fuzz_tables), 100); }
TEST(FuzzCorpus, MemoryOfTheSession) { EXPECT_GT(replay("memory", fuzz_memory), 50); }
TEST(FuzzCorpus, CallsOfAMember) { EXPECT_GT(replay("member", fuzz_member), 50); }

}  // namespace
}  // namespace shmtensor
