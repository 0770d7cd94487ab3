// Facts of ops that several tools read, one row per op of inference. The mathematics of an op (attributes, shapes,
// gradients) is in its own file of engine/ops.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/ops/op.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Which operands may have the rows of a batch, and on which axis. y is the result. "x alone" means only operand 0.
enum class Rows : uint8_t {
  kSamples,     // x alone, on axis 0; y has one result per row (convolutions, pools)
  kElements,    // x alone; y has each element at the same index
  kBroadcast,   // the first OpFacts::broadcast operands, by numpy's rules
  kJoined,      // any operand, on an axis other than `axis`
  kFeatures,    // x alone, on axes before the last, which weights multiply
  kNormalized,  // x alone, on axes before the last, which is normalized
  kMatrices,    // a, b or both, on axes before the multiplied ones
  kRecurrent,   // x and the initial states
  kStates,      // x and the state that outlives a run, all of them
  kTable,       // the indices of a table
  kAlongAxis,   // x alone, on an axis other than `axis`
  kReduced,     // x alone, on an axis that `axes` does not reduce
  kSearched,    // x alone, on an axis other than `axis`, which y lacks
  kReshaped,    // x alone; y has the elements in the same order
  kPermuted,    // x alone; y has the axes in another order
  kPadded,      // x alone, on an axis that is not padded
  kSliced,      // x alone, on an axis that stays whole
  kMixed,       // no operand: the op mixes the rows
};

// Which operands have the axes of the result y: none, the first, the first two, or all. Transposing them transposes y.
enum class Axes : uint8_t { kOwn, kOfFirst, kOfTwo, kOfAll };

// How a pixel of y [n, h, w, c] depends on pixels of x, for tools/passes/patches/steps.cc.
enum class Pixels : uint8_t {
  kOther,        // not pixel by pixel
  kEach,         // on the same pixel
  kJoined,       // on the same pixel, if `axis` is the channel axis
  kSliced,       // on the same pixel, if only channels are cut
  kScaled,       // on the same pixel, if there is one scale, or one per channel
  kConvolution,  // on a window, with weights
  kPool,         // on a window
  kPadded,       // on a pixel further up and left
};

// Whether the result y is 0 where the operand x is 0, for tools/passes/pad_features.cc.
enum class Zeros : uint8_t {
  kLost,       // no, or not known
  kKept,       // yes
  kClamped,    // if the clamp's bounds include 0
  kPooled,     // for a pool, if the clamp's bounds include 0
  kTogether,   // if a and b are both 0 and the clamp's bounds include 0
  kFlattened,  // if the last axis stays the last
  kRanged,     // if the axis of the scales is x's
  kDecoded,    // for codes of type float8 E4M3
  kReduced,    // if the last axis is not reduced
};

// The form in which static int8 quantization (tools/calibration) runs an op whose ranges are known.
enum class StaticForm : uint8_t {
  kReal,    // the op has no integer arithmetic
  kMatmul,  // weights and bias are codes; the output has its own codes
  kOwn,     // the output has its own codes
  kSame,    // the output has the codes of the input
  kFixed,   // the output has the codes of fixed_quantizer
};

// The integer arithmetic of an op on codes that the file or calibration gave: tools/passes/policy/forms.cc.
enum class IntegerOutput : uint8_t {
  kMissing,  // the op has no integer arithmetic
  kOwn,      // y has its own codes
  kOfInput,  // y must have the codes of x
};

// An operator of a file whose TensorFlow name differs from the op's own.
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
  bool any_sign = false;           // y can have negative and positive numbers, apart from its clamp
  bool keeps_axes = false;         // each axis of y is the same axis of x, so classes keep their axis
  bool passes_error = false;       // in int8/full training, the error of y passes on to the operands
  bool prepares_operands = false;  // converts or packs operands of a product; gpu_estimate.cc does not count it
  // TensorFlow's name for the op. Null if there is none, or if it depends on the node's attributes.
  const char* tensorflow = nullptr;
  std::span<const char* const> tensorflow_functions = {};  // names by the attribute `function`; entry 0 is ""
  std::span<const TensorflowName> tensorflow_sources = {};
  int broadcast = 2;  // for Rows::kBroadcast: number of first operands that broadcast against each other
};

// Returns the facts of an op of inference. For any other op returns the defaults of OpFacts.
const OpFacts& facts_of(Op op);

// Returns whether the op has an attribute named "clamp".
bool has_clamp(Op op);

// Returns why the op's integer arithmetic does not take the node's attributes and shapes, as the end of a sentence.
// Returns "" if it takes them. Whether the op has integer arithmetic is in OpFacts::calibrated and OpFacts::forms.
std::string integer_refusal(const Graph& graph, const Node& node);
inline constexpr const char* kNoIntegerForm = "it has no integer form";

}  // namespace nacre::tools
