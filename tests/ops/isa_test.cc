// Tests that kernels compiled again with another instruction set are separate functions, and give the reference's
// bytes.
#include <gtest/gtest.h>

#include "engine/kernels/reference.h"
#include "tests/cases.h"
#include "tests/isa_port.h"

namespace nacre::test {
namespace {

TEST(isa, kernels_of_another_instruction_set_are_other_functions_with_the_same_results) {
  if (!isa_runs_here()) GTEST_SKIP() << "this processor lacks the instruction set";
  constexpr int kCases = 20;
  size_t entries = 0;
  for (const reference::NamedEntry& named : reference::list()) {
    const KernelEntry* own = nullptr;
    for (const KernelEntry* entry : isa_kernels().entries) {
      EXPECT_NE(entry->run, named.entry->run) << named.name << ": the linker kept one of two";
      const bool same = entry->op == named.entry->op && entry->rounding == named.entry->rounding &&
                        entry->operand_count == named.entry->operand_count &&
                        std::equal(entry->operands, entry->operands + entry->operand_count, named.entry->operands,
                                   [](const OperandType& a, const OperandType& b) {
                                     return a.element == b.element && a.role == b.role && a.layout == b.layout;
                                   });
      if (same) own = entry;
    }
    if (own == nullptr) continue;
    ++entries;
    for (int i = 0; i < kCases; ++i) {
      Random random{uint64_t(i)};
      const Case made = random_case(*named.entry, random);
      const std::vector<Array> inputs = random_inputs(made, random);
      const Execution expected = execute(*named.entry, made.words, inputs), found = execute(*own, made.words, inputs);
      ASSERT_EQ(found.code, expected.code) << named.name;
      ASSERT_EQ(found.outputs.size(), expected.outputs.size());
      for (size_t o = 0; o < found.outputs.size(); ++o)
        EXPECT_EQ(found.outputs[o].bytes, expected.outputs[o].bytes) << named.name << ": " << text(made);
    }
  }
  EXPECT_EQ(entries, isa_kernels().entries.size());
}

}  // namespace
}  // namespace nacre::test
