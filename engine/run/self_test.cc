#include "engine/run/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nacre {
namespace {

void print_hash(const StaticProgram& program, void (*print)(const char* text)) {
  char text[2 * sizeof program.hash + 1] = {};
  for (size_t i = 0; i < 2 * sizeof program.hash; ++i)
    text[i] = "0123456789abcdef"[program.hash[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
  print(text);
}

// Runs one pair, and leaves both pointers at the next pair.
bool run_pair(const StaticProgram& program, GoldenPairs& golden) {
  start_stream(program);
  for (const std::span<std::byte> input : program.inputs) {
    std::memcpy(input.data(), golden.inputs, input.size());
    golden.inputs += input.size();
  }
  bool equal = program.run() == Code::kOk;
  for (const std::span<std::byte> output : program.outputs) {
    equal &= golden.equal(output.data(), golden.outputs, output.size());
    golden.outputs += output.size();
  }
  return equal;
}

}  // namespace

bool same_bytes(const std::byte* found, const uint8_t* expected, size_t bytes) {
  return std::memcmp(found, expected, bytes) == 0;
}

bool close_floats(const std::byte* found, const uint8_t* expected, size_t bytes) {
  const auto number = [](const void* list, size_t i) {
    float value;
    std::memcpy(&value, static_cast<const std::byte*>(list) + i * sizeof value, sizeof value);
    return value;
  };
  float largest = 0;
  for (size_t i = 0; i < bytes / sizeof(float); ++i) largest = std::max(largest, std::fabs(number(expected, i)));
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    const float apart = std::fabs(number(found, i) - number(expected, i));
    if (!(apart <= 1e-5f * largest)) return false;  // false for NaN
  }
  return true;
}

int self_test(const StaticProgram& program, GoldenPairs golden, void (*print)(const char* text)) {
  print("model ");
  print_hash(program, print);
  print("\n");
  int failed = 0;
  const auto require = [&](bool holds, const char* text) {
    if (holds) return;
    print(text);
    ++failed;
  };
  require(table_crc(program) == program.crc, "constants are not those that the PC wrote\n");
  for (uint32_t i = 0; i < golden.count; ++i) require(run_pair(program, golden), "another output than the PC's\n");
  return failed;
}

}  // namespace nacre
