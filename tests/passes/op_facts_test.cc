// Tests that the rows of facts_of agree with the ops' own tables and with the passes that read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "tools/graph/op_facts.h"
#include "tools/passes/policy/apply_policy.h"

namespace nacre::tools {
namespace {

bool has_attribute(const OpRule& rule, std::string_view name) {
  return std::ranges::any_of(rule.attributes, [&](const Attribute& a) { return a.name == name; });
}

template <class Check>
void each_op_of_inference(const Check& check) {
  int ops = 0;
  for (const OpRule* rule : all_rules()) {
    if (rule->op >= Op::kSumTo) continue;
    SCOPED_TRACE(rule->name);
    EXPECT_EQ(facts_of(rule->op).op, rule->op);
    check(*rule, facts_of(rule->op));
    ++ops;
  }
  EXPECT_GT(ops, 50);
}

TEST(facts_of, an_op_has_the_attributes_that_its_row_needs) {
  each_op_of_inference([](const OpRule& rule, const OpFacts& facts) {
    const bool one_axis = facts.rows == Rows::kJoined || facts.rows == Rows::kAlongAxis ||
                          facts.rows == Rows::kSearched || facts.zeros == Zeros::kRanged ||
                          facts.pixels == Pixels::kScaled;
    if (one_axis) {
      EXPECT_TRUE(has_attribute(rule, "axis"));
    }
    if (facts.rows == Rows::kReduced) {
      EXPECT_TRUE(has_attribute(rule, "axes"));
    }
    if (facts.rows == Rows::kPermuted) {
      EXPECT_TRUE(has_attribute(rule, "perm"));
    }
    if (facts.rows == Rows::kPadded) {
      EXPECT_TRUE(has_attribute(rule, "before") && has_attribute(rule, "after"));
    }
    if (facts.rows == Rows::kSliced) {
      EXPECT_TRUE(has_attribute(rule, "begin") && has_attribute(rule, "size"));
    }
    if (facts.rows == Rows::kMatrices) {
      EXPECT_TRUE(has_attribute(rule, "transpose_a"));
    }
    if (facts.rows == Rows::kBroadcast) {
      EXPECT_GE(int(rule.inputs.size()), facts.broadcast);
    }
    if (facts.pixels == Pixels::kPool) {
      EXPECT_TRUE(has_attribute(rule, "kernel_h"));
    }
    if (!facts.tensorflow_functions.empty()) {
      EXPECT_TRUE(has_attribute(rule, "function"));
    }
    if (facts.axes == Axes::kOfTwo) {
      EXPECT_EQ(facts.rows, Rows::kBroadcast);
    }
  });
}

TEST(facts_of, an_integer_form_is_where_the_row_says_so) {
  int forms = 0;
  each_op_of_inference([&](const OpRule& rule, const OpFacts& facts) {
    EXPECT_EQ(facts.forms != IntegerOutput::kMissing, find_integer_form(rule.op) != nullptr);
    EXPECT_EQ(facts.calibrated == StaticForm::kMatmul, is_matmul(rule.op));
    forms += facts.forms != IntegerOutput::kMissing;
  });
  EXPECT_EQ(forms, 23);
}

TEST(facts_of, ops_of_training_have_no_facts) {
  for (const OpRule* rule : all_rules())
    if (rule->op >= Op::kSumTo) {
      EXPECT_EQ(facts_of(rule->op).op, Op::kNone);
      EXPECT_EQ(facts_of(rule->op).calibrated, StaticForm::kReal);
    }
}

}  // namespace
}  // namespace nacre::tools
