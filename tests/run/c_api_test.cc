// The C API gives what the C++ API gives; nacre_c.h itself is compiled as C by c_api_user.c.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "tests/model/execute.h"

extern "C" int nacre_c_run(const void* bytes, size_t size, void* memory, size_t memory_size, void* output, size_t output_size,
                           nacre_status* status);

namespace nacre::test {
namespace {

TEST(c_api, gives_the_bytes_of_the_cpp_api) {
  Buffer file = pack(dense_int8());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  std::memset(b.program.input(0).data(), 3, b.program.input(0).size());
  ASSERT_TRUE(b.program.run().ok());
  Buffer memory(4096);
  std::vector<std::byte> output(b.program.output(0).size());
  nacre_status status;
  ASSERT_EQ(nacre_c_run(file.data(), file.size(), memory.data(), memory.size(), output.data(), output.size(), &status), 0)
      << nacre_sentence(status.code);
  EXPECT_EQ(std::memcmp(output.data(), b.program.output(0).data(), output.size()), 0);
}

TEST(c_api, passes_refusals_on) {
  Buffer file = pack(dense_int8());
  Buffer memory(16);
  nacre_status status;
  EXPECT_NE(nacre_c_run(file.data(), file.size(), memory.data(), memory.size(), nullptr, 0, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kMemorySize);
  EXPECT_GT(status.needed, status.given);
  EXPECT_NE(nacre_c_run(file.data(), file.size() - 1, memory.data(), memory.size(), nullptr, 0, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kLengthOver);
}

TEST(c_api, an_older_caller_gets_the_sizes_it_knows) {
  Buffer file = pack(dense_int8());
  nacre_model model;
  ASSERT_EQ(nacre_model_open(&model, file.data(), file.size()).code, 0);
  nacre_sizes sizes;
  std::memset(&sizes, 0x5A, sizeof sizes);
  sizes.size = offsetof(nacre_sizes, prepared);  // a struct that ends after `calls`
  ASSERT_EQ(nacre_program_measure(&model, 0, nacre_reference_kernels(), &sizes).code, 0);
  EXPECT_GT(sizes.calls, 0u);
  EXPECT_EQ(sizes.prepared, 0x5A5A5A5A5A5A5A5Au);
}

}  // namespace
}  // namespace nacre::test
