// Tests the order of a kernel set, and how many entries bind compares with a step.
#include "engine/run/find_entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/model/execute.h"

namespace nacre::test {
namespace {

bool by_op(const KernelEntry* a, const KernelEntry* b) { return a->op < b->op; }

TEST(find_entry, sets_are_sorted_by_op) {
  for (const KernelSet* set : reference_kernels()) {
    EXPECT_TRUE(std::is_sorted(set->entries.begin(), set->entries.end(), by_op)) << set->name;
    EXPECT_EQ(std::set<const KernelEntry*>(set->entries.begin(), set->entries.end()).size(), set->entries.size());
  }
  const auto same = [](const KernelSet& set, std::span<const reference::NamedEntry> list) {
    return std::ranges::equal(set.entries, list, {}, {}, [](const reference::NamedEntry& n) { return n.entry; });
  };
  EXPECT_TRUE(same(reference::kernels(), reference::list()));
  EXPECT_TRUE(same(reference::training_kernels(), reference::training_list()));
}

TEST(find_entry, an_op_has_all_of_its_entries_and_no_others) {
  for (const KernelSet* set : reference_kernels()) {
    size_t sum = 0;
    for (uint32_t op = 0; op < 1024; ++op) {
      const auto found = entries_of(*set, Op(op));
      const auto of_op = [op](const KernelEntry* e) { return e->op == Op(op); };
      EXPECT_TRUE(std::all_of(found.begin(), found.end(), of_op)) << op;
      EXPECT_EQ(found.size(), size_t(std::count_if(set->entries.begin(), set->entries.end(), of_op))) << op;
      sum += found.size();
    }
    EXPECT_EQ(sum, set->entries.size());
    EXPECT_TRUE(entries_of(*set, Op(0xFFFF)).empty());
  }
  EXPECT_TRUE(entries_of({"empty", {}}, Op::kDense).empty());
}

// Entries of one op keep the order of their list, because bind takes the first one that accepts.
TEST(find_entry, entries_of_one_op_keep_their_order) {
  const auto dense = entries_of(reference::kernels(), Op::kDense);
  ASSERT_GE(dense.size(), 2u);
  EXPECT_EQ(dense[0], &reference::kDenseF32);
  EXPECT_EQ(dense[1], &reference::kDenseF16);
}

// So find_packing_entry finds the entry that find_entry finds, and code that shows kernels may ask either.
TEST(find_entry, the_reference_reads_weights_as_they_lie_in_the_model) {
  for (const KernelSet* set : reference_kernels())
    for (const KernelEntry* entry : set->entries)
      for (int i = 0; i < int(entry->operand_count); ++i) {
        const Layout layout = entry->operands[i].layout;
        EXPECT_TRUE(layout == Layout::kRowMajor || layout == Layout::kAny) << set->name << ' ' << int(entry->op);
      }
}

// Counts the entries that bind compares with a step. The at most log2(n) + 1 looks for the op's first entry are not
// counted.
TEST(find_entry, a_step_is_compared_with_few_entries) {
  size_t compared = 0, all = 0, steps = 0;
  for (const ModelCase& c : cases()) {
    const Buffer file = pack(c.make());
    Model model;
    ASSERT_TRUE(model.open(file.bytes()).ok());
    for (const StepRecord& step : model.steps())
      for (const KernelSet* set : reference_kernels())
        compared += entries_of(*set, step.op).size(), all += set->entries.size(), ++steps;
  }
  EXPECT_GT(steps, 100u);
  EXPECT_LT(compared * 20, all) << compared << " of " << all;
}

}  // namespace
}  // namespace nacre::test
