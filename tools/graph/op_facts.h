// Facts of ops for the tools, one row an op. The mathematics (attributes, shapes, gradients) is in the op's own file
// of engine/ops; a pass that needs another fact reads it here, so that a new op is known everywhere by its row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/ops/op.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Which operands may have the rows of a batch, and where y has them.
enum class Rows : uint8_t {
  kSamples,     // x alone, on axis 0; y has the result of each (convolutions, pools)
  kElements,    // x alone; y has each element at its place
  kBroadcast,   // the first operands, as numpy broadcasts them: OpFacts::broadcast
  kJoined,      // any operand, on another axis than `axis`
  kFeatures,    // x alone, before its last axis, which weights multiply
  kNormalized,  // x alone, before its last axis, which is normalized
  kMatrices,    // a, b or both, before the axes that are multiplied
  kRecurrent,   // x and the initial states
  kStates,      // x and what outlives a run, all of them
  kTable,       // the indices of a table
  kAlongAxis,   // x alone, on another axis than `axis`
  kReduced,     // x alone, on an axis that is not reduced: `axes`
  kSearched,    // x alone, on another axis than `axis`, which y lacks
  kReshaped,    // x alone; y has the elements in the same order
  kPermuted,    // x alone; y has the axes in another order
  kPadded,      // x alone, on an axis that is not padded
  kSliced,      // x alone, on an axis that stays whole
  kMixed,       // the rows together
};

// Operands that have the axes of y, so that a transpose of all of them is one of y.
enum class Axes : uint8_t { kOwn, kOfFirst, kOfTwo, kOfAll };

// How a pixel of y [n, h, w, c] depends on those of x: tools/passes/patches/steps.cc.
enum class Pixels : uint8_t {
  kOther,        // not by pixels
  kEach,         // on the same pixel
  kJoined,       // on the same pixel, where `axis` is that of the channels
  kSliced,       // on the same pixel, where channels alone are cut
  kScaled,       // on the same pixel, where there is one scale, or one for each channel
  kConvolution,  // on a window, with weights
  kPool,         // on a window
  kPadded,       // on one further up and left
};

// Whether y is 0 where x is: tools/passes/pad_features.cc.
enum class Zeros : uint8_t {
  kLost,
  kKept,
  kClamped,    // where the bounds are around 0
  kPooled,     // the same, of a pool
  kTogether,   // where a and b are both 0, and the bounds are around 0
  kFlattened,  // where the last axis stays the last
  kRanged,     // where the axis of the scales is x's
  kDecoded,    // of codes whose 0 is 0
  kReduced,    // where the last axis is not reduced
};

// Form that static int8 quantization gives an op whose ranges are known: tools/calibration.
enum class StaticForm : uint8_t {
  kReal,    // no integer arithmetic
  kMatmul,  // codes of weights and bias; the output has codes of its own
  kOwn,     // the output has codes of its own
  kSame,    // the output has the codes of the input
  kFixed,   // the output has the codes of fixed_quantizer
};

// The integer arithmetic of an op on codes that a file or calibration gave: tools/passes/policy/forms.cc.
enum class IntegerOutput : uint8_t {
  kMissing,  // no integer arithmetic
  kOwn,      // the codes of y are its own
  kOfInput,  // the codes of y must be those of x
};

// An operator of a file that TensorFlow writes by another name than the op's own.
struct TensorflowName {
  std::string_view source, name;
};

struct OpFacts {
  Op op = Op::kNone;
  Rows rows = Rows::kSamples;
  Axes axes = Axes::kOwn;
  Pixels pixels = Pixels::kOther;
  Zeros zeros = Zeros::kLost;
  StaticForm calibrated = StaticForm::kReal;
  IntegerOutput forms = IntegerOutput::kMissing;
  bool any_sign = false;           // y has negative and positive numbers, unless its clamp takes them away
  bool keeps_axes = false;         // an axis of y is the same one of x: classes stay where they are
  bool passes_error = false;       // in training of integers: what it got goes on to the operands (int8/full)
  bool prepares_operands = false;  // makes the operands of a product of what its layer gets
  // TensorFlow's name for the op, or for each value of its attribute `function`; null: none, or it depends on more.
  const char* tensorflow = nullptr;
  std::span<const char* const> tensorflow_functions = {};  // by the value; that of 0 is empty
  std::span<const TensorflowName> tensorflow_sources = {};
  int broadcast = 2;  // of Rows::kBroadcast: so many first operands are broadcast against each other
};

// Ops of inference have a row each; all others share one that says nothing.
const OpFacts& facts_of(Op op);

// Whether the op has a clamp of its own: an attribute of this name.
bool has_clamp(Op op);

// Why the integer arithmetic of the node's op does not take its attributes and shapes, as the end of a sentence; empty:
// it does. `calibrated` and `forms` say whether there is any.
std::string integer_refusal(const Graph& graph, const Node& node);
inline constexpr const char* kNoIntegerForm = "it has no integer form";

}  // namespace nacre::tools
