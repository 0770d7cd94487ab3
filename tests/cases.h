// Makes random cases of an op: attributes, input shapes and value ranges. OpRow::make (op_rows.h) makes an op's cases.
#pragma once

#include <string>
#include <vector>

#include "tests/one_step.h"
#include "tests/random.h"

namespace nacre::test {

// Traits that make a case worth counting: the columns of the op table.
enum Trait : unsigned {
  kGroupsTrait = 1,      // groups > 1
  kDilationTrait = 2,    // dilation > 1
  kAsymmetricTrait = 4,  // pads that differ at the two ends of an axis
  kMultiplierTrait = 8,  // more than one output channel per input channel
  kRankTrait = 16,       // not of the usual rank: 2 for dense, embedding, tree_ensemble and losses, 4 for the rest
  kBroadcastTrait = 32,  // operands of different shapes
};
inline constexpr const char* kTraitNames[] = {"groups", "dilation", "asym. pad", "mult. > 1", "rank", "broadcast"};
inline constexpr int kTraitCount = 6;

struct Input {
  enum Fill { kUniform, kPairs, kSumPairs, kExtremes, kTrees, kCurve };
  ElementType element = ElementType::kNone;  // kNone: absent
  std::vector<int32_t> dims;
  // `low` and `high` are the ends of the values. For pairs they are the ends of the real multipliers, drawn evenly by
  // logarithm; for kSumPairs they are those of row y, and rows a and b have scales at most 16 times apart.
  // kExtremes adds values that no network has as scales, or NaN and infinity. kTrees makes nodes of tree_ensemble
  // over `low` features and `high` leaf entries, kCurve points of sigmoid.
  double low = -1, high = 1;
  Fill fill = kUniform;
};

struct Case {
  std::vector<uint32_t> words;
  std::vector<Input> inputs;
  unsigned traits = 0;
};

// Returns null if no row generates cases of the op.
using CaseMaker = void (*)(const KernelEntry& entry, Random& random, Case& made);
CaseMaker find_case_maker(Op op);

Case random_case(const KernelEntry& entry, Random& random);
std::vector<Array> random_inputs(const Case& made, Random& random);
std::string text(const Case& made);

}  // namespace nacre::test
