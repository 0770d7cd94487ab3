// Defines an op: an id, attributes as 32-bit words, a shape rule, and a description for the tools.
//
// The op's own file (dense.h, conv.h, ...) holds its formula, loops, attributes and shape rule. Attributes are a
// counted run of words in the model. A missing trailing word reads as 0, so an op can grow. Attributes that naturally
// start at 1 (stride, dilation, groups, kernel size) are stored less 1.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/numeric/rounding.h"

namespace nacre {

// The operators. The file of an op (conv.h for kConv2d, ...) has its formula, attributes and shapes; all_rules() lists
// the files' rules. Ids never change meaning. Each group of ids leaves room for further ops.
enum class Op : uint16_t {
  kNone = 0,
  kDense = 1,
  kConv2d = 2,
  kDepthwiseConv2d = 3,
  kBatchedMatmul = 4,
  kAveragePool = 16,
  kMaxPool = 17,
  kResize = 18,
  kAdd = 32,
  kSub = 33,
  kMul = 34,
  kBinary = 35,
  kCompare = 36,
  kSelect = 37,
  kClamp = 48,
  kLeakyRelu = 49,
  kSigmoid = 50,
  kTanh = 51,
  kHardSwish = 52,
  kLookup = 53,
  kGelu = 54,
  kSilu = 55,
  kDropout = 56,
  kUnary = 57,
  kRandom = 58,
  kSoftmax = 64,
  kBatchNorm = 65,
  kMean = 66,
  kBatchNormTraining = 67,
  kLayerNorm = 68,
  kReduce = 69,
  kArgMax = 70,
  kLogSoftmax = 71,
  kReshape = 80,
  kTranspose = 81,
  kConcat = 82,
  kPad = 83,
  kSlice = 84,
  kCopy = 85,
  kPack = 86,
  kStore = 87,
  kQuantize = 96,
  kDequantize = 97,
  kRequantize = 98,
  kCast = 99,
  kDynamicQuantize = 100,
  kFakeQuantize = 101,
  kFakeFloat8 = 102,
  kFakeFloat8Gradient = 103,
  kObserveRange = 104,
  kRoundCodes = 105,
  kEmbedding = 112,
  kLstm = 128,
  kGru = 129,
  kStreamLstm = 130,
  kSvdf = 131,
  kTreeEnsemble = 144,
  kSignal = 145,
  kNonMaxSuppression = 146,

  // Backward: steps of the programs `gradients` and `update` only.
  kSumTo = 512,
  kMulGradient = 513,
  kClampGradient = 514,
  kLeakyReluGradient = 515,
  kSigmoidGradient = 516,
  kTanhGradient = 517,
  kHardSwishGradient = 518,
  kSoftmaxGradient = 519,
  kMeanGradient = 520,
  kPadGradient = 521,
  kSliceGradient = 522,
  kAccumulate = 523,
  kZeros = 524,
  kDenseGradientX = 528,
  kDenseGradientW = 529,
  kBiasGradient = 530,
  kConv2dGradientX = 531,
  kConv2dGradientW = 532,
  kDepthwiseConv2dGradientX = 533,
  kDepthwiseConv2dGradientW = 534,
  kDenseFloat8GradientW = 535,
  kConv2dFloat8GradientW = 536,
  kDenseInt8GradientW = 537,
  kDenseInt8GradientX = 538,
  kBiasInt8Gradient = 539,
  kAveragePoolGradient = 540,
  kMaxPoolGradient = 541,
  kResizeGradient = 542,
  kBatchNormGradientX = 544,
  kBatchNormGradientScale = 545,
  kBatchNormTrainingGradientX = 546,
  kBatchNormTrainingGradientScale = 547,
  kFakeQuantizeGradientX = 552,
  kFakeQuantizeGradientScale = 553,
  kBatchedMatmulGradientA = 576,
  kBatchedMatmulGradientB = 577,
  kLayerNormGradientX = 578,
  kLayerNormGradientScale = 579,
  kGeluGradient = 580,
  kSiluGradient = 581,
  kEmbeddingGradient = 583,
  kLstmGradient = 584,
  kLstmGradientW = 585,
  kGruGradient = 586,
  kGruGradientW = 587,
  kGruGradientBias = 588,
  kUnaryGradient = 589,
  kBinaryGradient = 590,
  kReduceGradient = 591,
  kLogSoftmaxGradient = 592,
  kSelectGradient = 593,
  kConv2dInt8GradientW = 594,
  kConv2dInt8GradientX = 595,
  kDepthwiseConv2dInt8GradientW = 596,
  kDepthwiseConv2dInt8GradientX = 597,
  kAveragePoolInt8Gradient = 598,
  kMaxPoolInt8Gradient = 599,
  kMaskError = 600,
  kAddErrors = 601,

  kSoftmaxCrossEntropy = 640,
  kSoftmaxCrossEntropyGradient = 641,
  kDenseCrossEntropy = 642,
  kDenseCrossEntropyGradient = 643,
  kSigmoidCrossEntropy = 644,
  kSigmoidCrossEntropyGradient = 645,
  kSquaredError = 646,
  kSquaredErrorGradient = 647,
  kAbsoluteError = 648,
  kAbsoluteErrorGradient = 649,
  kHuber = 650,
  kHuberGradient = 651,
  kInt8CrossEntropy = 652,

  kSgd = 704,
  kMomentum = 705,
  kNesterov = 706,
  kAdam = 707,
  kAdamW = 708,
  kRmsprop = 709,
  kAdagrad = 710,
  kOnnxMomentum = 711,
  kOnnxAdam = 712,
  kOnnxAdagrad = 713,
  kSgdCodes = 714,
  kPendingCodes = 715,
  kWriteCodes = 716,
  kVerdict = 736,
  kUpdateScales = 737,
  kAdjustLossScale = 738,
  kCountStep = 739,
  kUpdateStatistics = 740,
  kUpdateRange = 741,
  kVerdictCodes = 742,
  kUpdateErrorRange = 743,
};

// The kind of an op's arithmetic: products of matrices and convolutions, element by element, sums over many elements,
// or none (kMove only moves elements).
enum class Numerics : uint8_t { kMatmul, kPointwise, kReduction, kMove };

// The use of an operand by a step: it is read, written, or both. The two highest bits of an operand's word are its
// role, the others its tensor id.
enum class Role : uint8_t { kIn = 0, kOut = 1, kUpdate = 2 };
inline constexpr uint32_t kOperandIdMask = 0x3FFFFFFF;
inline constexpr uint32_t kNoOperand = kOperandIdMask;  // an optional operand that is absent

struct StepRecord {  // schema/FORMAT.md, "steps"
  Op op;
  uint8_t word_count, operand_count;
  uint32_t first_word, first_operand;  // positions in the file's tables of words and operands
  uint32_t layer;                      // index or kNoIndex
  uint32_t guard;                      // tensor id or kNoIndex; if the tensor's one uint32 is 0, the step has no effect
  uint8_t place;                       // the port that is asked first for a kernel (run/places.h)
  Rounding rounding;                   // how the kernel rounds integers
  uint16_t flags;                      // 0
  uint32_t reserved[2];                // 0
};
static_assert(sizeof(StepRecord) == 32);

// The attributes of one step. Missing trailing words read as 0.
struct Words {
  const uint32_t* data = nullptr;
  int count = 0;

  NACRE_SHARED constexpr uint32_t operator[](int i) const { return i < count ? data[i] : 0; }
  NACRE_SHARED constexpr int integer(int i) const { return int((*this)[i]); }
  NACRE_SHARED constexpr float real(int i) const { return std::bit_cast<float>((*this)[i]); }  // the word's bits
};

// The operands of one step, inputs first, then outputs, in the order of the kernel's parameters.
struct Operands {
  const Tensor* tensor = nullptr;
  int count = 0;
  int rows = 0;  // if > 0, the rows of this run, for batched tensors

  // The other two need an operand that is there: has(i).
  NACRE_SHARED constexpr bool has(int i) const { return i < count && tensor[i].record != nullptr; }
  NACRE_SHARED constexpr Shape operator[](int i) const {
    const TensorRecord& r = *tensor[i].record;
    return {r.rank, r.dims, (r.flags & kBatched) != 0 ? rows : 0};
  }
  NACRE_SHARED constexpr ElementType element(int i) const { return tensor[i].record->element; }
};

// Checks attributes and the shapes of the inputs, and computes the shape of every output, in order. `operands` holds
// the inputs only. Its count is the inputs of this step, absent ones included: dense in float has 3, in int8 4. A
// rule runs after the element types have been matched with a kernel's, so required inputs are present. It runs before
// all other code that uses the step, on untrusted numbers: every dim is in [1, 2^28], every tensor below 2^31
// elements. `outputs` is zeroed.
using ShapeRule = Code (*)(const Words& words, const Operands& operands, Dims* outputs);

// ---- For the tools, and for facts about steps. No kernel and no program refers to it: firmware does not link it. ----

enum class Coding : uint8_t {
  kInteger,
  kLessOne,  // stored less 1
  kReal,     // float32 bits
  kBound,    // bound of a clamp: float32 bits in a float step, a code in an int8 step
};

// An attribute: one or more words of a step.
struct Attribute {
  const char* name;
  Coding coding = Coding::kInteger;
  int count = 1;  // consecutive words
};

// The source of an operand of a gradient step.
struct GradientRead {
  enum Source : uint8_t {
    kForwardInput,   // input `index` of the step that is differentiated
    kForwardOutput,  // output `index` of that step
    kGradient,       // the gradient of output `index`
    kInputGradient,  // the gradient of input `index`, made by an earlier row
    kSeed,           // the start of the backward pass: the loss scale, float32 [1]
  } source;
  uint8_t index = 0;
};
constexpr GradientRead input_of(uint8_t i) { return {GradientRead::kForwardInput, i}; }
constexpr GradientRead output_of(uint8_t i) { return {GradientRead::kForwardOutput, i}; }
constexpr GradientRead gradient_of(uint8_t i) { return {GradientRead::kGradient, i}; }
constexpr GradientRead input_gradient_of(uint8_t i) { return {GradientRead::kInputGradient, i}; }
inline constexpr GradientRead kBackwardSeed = {GradientRead::kSeed, 0};

// Makes the lists of a row: .of = kOf<0>, .reads = kReads<gradient_of(0), input_of(1)>.
template <uint8_t... kInputs>
inline constexpr uint8_t kOf[] = {kInputs...};
template <GradientRead... kSources>
inline constexpr GradientRead kReads[] = {kSources...};

// One row of an op's gradient table. A step of op `by` makes the gradients of inputs `of`, which are its outputs in
// order. With `adds` the row has one input, and the step adds to a sum in the step block, its last operand. If an
// input is absent, so is the operand. A row whose inputs are all absent or need no gradient is left out. If an input
// has a row that adds and a row that does not, the first is for a parameter, which has a sum, and the second for a
// value. If `by` is Op::kNone, there is one read and no step: the tensor that is read is the gradient. With
// gradient_of(0) that is the identity.
struct Gradient {
  std::span<const uint8_t> of;
  Op by;
  std::span<const GradientRead> reads;
  bool adds = false;
  // Writes the attributes of the gradient step, at most 32, to `made` and returns their number. `words` and
  // `operands` (inputs, then outputs) are those of the step that is differentiated. `input` is the index of the input
  // in question; for variadic ops it is the position in the list. If null, the attributes are those of that step.
  int (*words)(const Words& words, const Operands& operands, int input, uint32_t* made) = nullptr;
};

// How an op is divided among the threads of a device (engine/ops/parts.h), by its operands' shapes.
struct DeviceThreads {
  int phases = 1;                                        // launches, one after the other
  int64_t (*parts)(const Operands& operands) = nullptr;  // numbers that one phase passes to the next
  int64_t (*teams)(const Operands& operands) = nullptr;  // most iterations that teams run; null: `parts`, or none
};
constexpr int64_t elements_of_first(const Operands& operands) { return operands[0].elements(); }
constexpr int64_t elements_of_last(const Operands& operands) { return operands[operands.count - 1].elements(); }
constexpr int64_t channels_of_first(const Operands& operands) { return operands[0].last(); }
constexpr int64_t rows_of_first(const Operands& operands) { return operands[0].product(0, operands[0].rank - 1); }

// All facts about an op that tools and programs ask.
struct OpRule {
  Op op;
  const char* name;  // "conv2d"
  Numerics numerics;
  ShapeRule shapes;
  std::span<const Attribute> attributes;  // attributes in the order of their words
  // Names of the operands. A trailing '?' means optional. A leading '&' means read and written (Role::kUpdate); such
  // operands come after those only read. A last "..." means any number of further operands like the first.
  std::span<const char* const> inputs;
  std::span<const char* const> outputs;
  std::span<const Gradient> gradients = {};  // empty if no gradient flows back through the op
  uint32_t parameters = 0;                   // bit i: input i, if constant, is a parameter that can be trained
  DeviceThreads threads = {};
};

// Return the rule of an op, or null if there is none, and all rules. Rules are constant and static; engine/ops/all.h
// has one table of them.
const OpRule* find_rule(Op op);
const OpRule* find_rule(const char* name);
std::span<const OpRule* const> all_rules();

}  // namespace nacre
