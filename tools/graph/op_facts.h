// Facts of ops for the tools, one row per op. The mathematics of an op (attributes, shapes, gradients) is in its own
// file of engine/ops. Passes read any other fact here, so a new op needs only its row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/ops/op.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Which operands may have the rows of a batch, and where the result y has them. "x alone" means only operand 0.
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
  kMixed,       // none: the op mixes the rows
};

// Operands that share the axes of y. Transposing all of them transposes y.
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

// Whether y is 0 for x = 0, for tools/passes/pad_features.cc.
enum class Zeros : uint8_t {
  kLost,
  kKept,
  kClamped,    // if the clamp's bounds include 0
  kPooled,     // for a pool, if the clamp's bounds include 0
  kTogether,   // if a and b are both 0 and the clamp's bounds include 0
  kFlattened,  // if the last axis stays the last
  kRanged,     // if the axis of the scales is x's
  kDecoded,    // for codes of which 0 decodes to 0
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
  bool any_sign = false;           // y has negative and positive numbers, unless its clamp takes them away
  bool keeps_axes = false;         // each axis of y is the same axis of x, so classes keep their axis
  bool passes_error = false;       // in int8/full training, the error of y passes on to the operands
  bool prepares_operands = false;  // makes the operands of a product from its layer's inputs
  // TensorFlow's name for the op. null if there is none, if it depends on the attribute `function`, or on more.
  const char* tensorflow = nullptr;
  std::span<const char* const> tensorflow_functions = {};  // by `function`; entry 0 is empty
  std::span<const TensorflowName> tensorflow_sources = {};
  int broadcast = 2;  // for Rows::kBroadcast: number of first operands that broadcast against each other
};

// Returns the row of an op of inference. All other ops share an empty row.
const OpFacts& facts_of(Op op);

// Returns whether the op has an attribute named "clamp".
bool has_clamp(Op op);

// Returns why the op's integer arithmetic does not take the node's attributes and shapes, as the end of a sentence.
// Returns "" if it does. `calibrated` and `forms` say whether the op has integer arithmetic.
std::string integer_refusal(const Graph& graph, const Node& node);
inline constexpr const char* kNoIntegerForm = "it has no integer form";

}  // namespace nacre::tools
