// False facts about the number formats that policies make: the attributes form and block, and scales, zero points and
// types that belong to another form.

#include <bit>

#include "tests/model/facts.h"

namespace nacre::test {
namespace {

constexpr uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
constexpr uint32_t kNan = 0x7FC00000;

// Attribute numbers of a dense and of a convolution, as in the ops' files.
constexpr uint32_t kDenseXZero = 3, kDenseForm = 5, kDenseBlock = 6;
constexpr uint32_t kConvClamp = 8, kConvForm = 14, kConvBlock = 15;
enum Operand : uint32_t { kX, kW, kBias, kScale, kXScale, kZero = kXScale, kYScale };

// Sets word k of a step. If the step has fewer words, copies them to the end of all words and adds the missing ones.
void set_word(Draft& d, uint32_t step, uint32_t k, uint32_t value) {
  StepRecord& s = d.steps[step];
  if (k >= s.word_count) {
    const std::vector<uint32_t> words(d.words.begin() + s.first_word, d.words.begin() + s.first_word + s.word_count);
    s.first_word = uint32_t(d.words.size());
    s.word_count = uint8_t(k + 1);
    d.words.insert(d.words.end(), words.begin(), words.end());
    d.words.resize(s.first_word + s.word_count);
  }
  d.words[s.first_word + k] = value;
}

uint32_t& operand(Draft& d, uint32_t step, uint32_t slot) { return d.operands[d.steps[step].first_operand + slot]; }

TensorRecord& tensor(Draft& d, uint32_t step, uint32_t slot) {
  return d.tensors[operand(d, step, slot) & kOperandIdMask];
}

void set_dims(TensorRecord& r, const std::vector<int32_t>& dims) {
  uint64_t elements = 1;
  r.rank = uint8_t(dims.size());
  for (size_t i = 0; i < kMaxRank; ++i) {
    r.dims[i] = i < dims.size() ? dims[i] : 0;
    elements *= i < dims.size() ? uint64_t(dims[i]) : 1;
  }
  r.bytes = storage_bytes(r.element, elements);
}

class Rows {
 public:
  Rows(Facts& facts, Draft (*base)(), uint32_t step) : f_(facts), base_(base), step_(step) {}

  // Each function adds a fact: measure must refuse the step with other words, or with an operand of other dims, type
  // or id.
  void word(int number, const char* text, uint32_t k, uint32_t value, Code code) {
    add(number, text, code, [step = step_, k, value](Draft& d) { set_word(d, step, k, value); });
  }
  void words(int number, const char* text, uint32_t first, std::vector<uint32_t> values, Code code) {
    add(number, text, code, [step = step_, first, values](Draft& d) {
      for (uint32_t i = 0; i < values.size(); ++i) set_word(d, step, first + i, values[i]);
    });
  }
  void dims(int number, const char* text, uint32_t slot, std::vector<int32_t> dims, Code code) {
    add(number, text, code, [step = step_, slot, dims](Draft& d) { set_dims(tensor(d, step, slot), dims); });
  }
  void type(const char* text, uint32_t slot, ElementType type) {
    add(16, text, Code::kNoKernel, [step = step_, slot, type](Draft& d) { tensor(d, step, slot).element = type; });
  }
  void other(int number, const char* text, uint32_t slot, uint32_t id, Code code) {
    add(number, text, code, [step = step_, slot, id](Draft& d) { operand(d, step, slot) = id; });
  }
  void without(int number, const char* text, uint32_t slot, Code code) {
    add(number, text, code, [step = step_, slot](Draft& d) {
      StepRecord& s = d.steps[step];
      for (uint32_t i = slot; i + 1 < s.operand_count; ++i) operand(d, step, i) = operand(d, step, i + 1);
      --s.operand_count;
    });
  }
  void add(int number, const char* text, Code code, std::function<void(Draft&)> mutate) {
    f_.draft(number, text, base_, std::move(mutate), {code, Table::kStep, step_, Stage::kMeasure});
  }

 private:
  Facts& f_;
  Draft (*base_)();
  uint32_t step_;
};

void the_weights_only(Facts& f) {
  Rows dense(f, weight_only, 0), conv(f, weight_only, 3), depthwise(f, weight_only, 5), wide(f, weight_only, 7);
  dense.word(18, "form 2 of a dense", kDenseForm, 2, Code::kAttribute);
  conv.word(18, "form 2^32 - 1 of a convolution", kConvForm, ~0u, Code::kAttribute);
  depthwise.word(18, "form 2 of a depthwise convolution", kConvForm, 2, Code::kAttribute);
  dense.word(36, "a block in a step without groups", kDenseBlock, 1, Code::kAttribute);
  conv.word(36, "a block in a convolution without groups", kConvBlock, 1u << 31, Code::kAttribute);
  dense.word(35, "a zero point of the input of a weight-only step", kDenseXZero, 1, Code::kAttributeZero);
  dense.dims(34, "2 scales for 3 outputs", kScale, {2}, Code::kShapeScale);
  dense.dims(34, "scales as a column", kScale, {3, 1}, Code::kShapeScale);
  dense.dims(34, "scales as a row", kScale, {1, 3}, Code::kShapeScale);
  dense.dims(34, "a scale of rank 0", kScale, {}, Code::kShapeScale);
  wide.dims(34, "4 scales for 5 outputs of float64", kScale, {4}, Code::kShapeScale);
  wide.dims(30, "a float64 bias of another length", kBias, {4}, Code::kShapeBias);
  wide.dims(30, "int4 weights for another width", kW, {5, 2}, Code::kShapeWeights);
  wide.type("scales of another type", kScale, ElementType::kUint32);
  wide.type("uint4 weights", kW, ElementType::kUint4);
  wide.type("E2M1 weights", kW, ElementType::kFloat4E2M1);
  conv.words(42, "clamp bound NaN in a float16 step", kConvClamp, {1, kNan, bits(6)}, Code::kClamp);
  depthwise.words(42, "clamp bound -NaN in a bfloat16 step", kConvClamp, {1, bits(0), ~0u}, Code::kClamp);
  wide.words(42, "clamp with lower over upper bound, float64", 0, {1, bits(0), bits(-1e-40f)}, Code::kClamp);
  f.draft(24, "int4 with a byte per code", weight_only, [](Draft& d) { tensor(d, 7, kW).bytes = 15; },
          {Code::kBytes, Table::kTensor, 6});
  f.draft(24, "int4 without the byte of its odd code", weight_only, [](Draft& d) { tensor(d, 7, kW).bytes = 7; },
          {Code::kBytes, Table::kTensor, 6});
  f.draft(22, "int4 of a dimension 0", weight_only, [](Draft& d) { tensor(d, 7, kW).dims[1] = 0; },
          {Code::kDim, Table::kTensor, 6});
}

void the_groups(Facts& f) {
  Rows dense(f, grouped_int4, 0), conv(f, grouped_int4, 3), depthwise(f, grouped_int4, 5);
  dense.word(36, "block 0", kDenseBlock, 0, Code::kAttribute);
  conv.word(36, "block 0 of a convolution", kConvBlock, 0, Code::kAttribute);
  depthwise.word(36, "block 0 of a depthwise convolution", kConvBlock, 0, Code::kAttribute);
  dense.word(36, "block over 2^28", kDenseBlock, (1u << 28) + 1, Code::kAttribute);
  conv.word(36, "block -1", kConvBlock, ~0u, Code::kAttribute);
  dense.word(18, "a form in a step with groups", kDenseForm, 1, Code::kAttribute);
  dense.word(34, "a block that makes fewer groups", kDenseBlock, 3, Code::kShapeScale);
  dense.word(34, "a block that makes more groups", kDenseBlock, 1, Code::kShapeScale);
  depthwise.word(34, "a block over all terms with three groups", kConvBlock, 9, Code::kShapeScale);
  dense.dims(34, "scales of 2 outputs for 3", kScale, {2, 3}, Code::kShapeScale);
  dense.dims(34, "scales of 2 groups for 3", kScale, {3, 2}, Code::kShapeScale);
  dense.dims(34, "scales of groups in one axis", kScale, {9}, Code::kShapeScale);
  dense.dims(34, "zero points of 2 groups for 3", kZero, {3, 2}, Code::kShapeScale);
  dense.dims(34, "one zero point", kZero, {1}, Code::kShapeScale);
  depthwise.dims(34, "scales [groups, outputs]", kScale, {3, 2}, Code::kShapeScale);
  conv.dims(34, "zero points of one output", kZero, {1, 2}, Code::kShapeScale);
  conv.dims(30, "int4 filters of another width", kW, {2, 2, 1, 2}, Code::kShapeWeights);
  dense.type("zero points in uint8", kZero, ElementType::kUint8);
  dense.type("groups of uint4", kW, ElementType::kUint4);
  dense.other(20, "groups without zero points", kZero, kNoOperand, Code::kOperandMissing);
  dense.without(36, "a block with no zero points at all", kZero, Code::kAttribute);
}

void the_dynamic_scales(Facts& f) {
  Rows codes(f, dynamic_int8, 0), dense(f, dynamic_int8, 1), conv(f, dynamic_int8, 5);
  const uint32_t six_scales = 2;  // tensor id of the scales of the dense step's outputs
  codes.word(33, "Keras' scales beyond the rank", 0, 3, Code::kAttributeAxis);
  codes.word(32, "one scale where two were declared", 0, 0, Code::kShapeOutput);
  codes.add(16, "a scale of another type than its input", Code::kNoKernel, [](Draft& d) {
    TensorRecord& scale = tensor(d, 0, 2);
    scale.element = ElementType::kBfloat16, scale.bytes = 4;
  });
  dense.word(18, "a form in a dynamic step", kDenseForm, 1, Code::kAttribute);
  dense.word(36, "a block in a dynamic step", kDenseBlock, 4, Code::kAttribute);
  conv.word(18, "a form in a dynamic convolution", kConvForm, 1, Code::kAttribute);
  conv.word(36, "a block in a dynamic convolution", kConvBlock, 4, Code::kAttribute);
  dense.word(35, "a zero point in a dynamic step", kDenseXZero, 1, Code::kAttributeZero);
  dense.words(42, "clamp bound NaN in a dynamic step", 0, {1, bits(-1), kNan}, Code::kClamp);
  dense.dims(34, "5 scales for 6 outputs", kScale, {5}, Code::kShapeScale);
  dense.dims(34, "scales that look like pairs", kScale, {3, 2}, Code::kShapeScale);
  dense.other(34, "6 row scales for 2 rows", kXScale, six_scales, Code::kShapeScale);
  dense.other(20, "no row scales", kXScale, kNoOperand, Code::kOperandMissing);
  dense.type("bias of codes", kBias, ElementType::kInt32);
  dense.type("uint8 weights", kW, ElementType::kUint8);
  conv.type("scales in float16", kScale, ElementType::kFloat16);
  Rows zeros(f, hybrid, 0);
  zeros.dims(34, "one zero point for 2 rows", kYScale, {1}, Code::kShapeScale);
  zeros.dims(34, "zero points of rank 2", kYScale, {2, 1}, Code::kShapeScale);
  zeros.other(34, "one scale for 2 rows with zero points", kXScale, 2, Code::kShapeScale);
  zeros.word(18, "a form in a hybrid step", kDenseForm, 1, Code::kAttribute);
}

void the_float8(Facts& f) {
  const uint32_t two = 1, three = 1;  // tensor ids of scales in the two models
  Rows quantize(f, float8_static, 0), conv(f, float8_static, 1), depthwise(f, float8_static, 2);
  Rows channels(f, float8_static, 4), back(f, float8_static, 5);
  quantize.word(18, "form 2 of quantize", 1, 2, Code::kAttribute);
  back.word(18, "form 2^31 of dequantize", 1, 1u << 31, Code::kAttribute);
  channels.word(33, "scales along an axis beyond the rank", 0, 4, Code::kAttributeAxis);
  channels.word(34, "scales along an axis of another size", 0, 0, Code::kShapeScale);
  quantize.add(20, "a rounding of steps with a zero point", Code::kOperandCount,
               [](Draft& d) { d.steps[0].rounding = Rounding::kHalfAway; });
  conv.word(18, "a form in a float8 step", kConvForm, 1, Code::kAttribute);
  conv.word(36, "a block in a float8 step", kConvBlock, 1, Code::kAttribute);
  conv.without(16, "float8 output without its scale", kYScale, Code::kNoKernel);
  conv.other(20, "float8 output with an absent scale", kYScale, kNoOperand, Code::kOperandMissing);
  conv.other(34, "float8 output with a scale per channel", kYScale, two, Code::kShapeScale);
  conv.other(34, "2 input scales for one image", kXScale, two, Code::kShapeScale);
  conv.words(42, "clamp bound NaN before float8", kConvClamp, {1, kNan, kNan}, Code::kClamp);
  conv.type("E5M2 weights", kW, ElementType::kFloat8E5M2);
  conv.type("E4M3FNUZ weights", kW, ElementType::kFloat8E4M3Fnuz);
  depthwise.type("float8 bias in float16 before bfloat16", kBias, ElementType::kFloat16);
  Rows dense(f, float8_current, 1), last(f, float8_current, 4);
  dense.other(34, "3 row scales for [2, 2] rows", kXScale, three, Code::kShapeScale);
  last.other(34, "float8 output of 3 scales", kYScale, three, Code::kShapeScale);
}

void the_float_types(Facts& f) {
  Rows conv(f, network_f16, 0), norm(f, network_f16, 4), softmax(f, network_f16, 7), wide(f, network_f64, 6);
  conv.word(42, "float16 clamp with upper bound NaN", kConvClamp + 2, kNan, Code::kClamp);
  conv.word(42, "float16 clamp with lower over upper bound", kConvClamp + 1, bits(7), Code::kClamp);
  conv.word(18, "a form in a float16 convolution", kConvForm, 1, Code::kAttribute);
  conv.word(36, "a block in a float16 convolution", kConvBlock, 1, Code::kAttribute);
  wide.word(18, "a form in a float64 dense", kDenseForm, 1, Code::kAttribute);
  wide.word(36, "a block in a float64 dense", kDenseBlock, 2, Code::kAttribute);
  conv.type("float16 filters with a bfloat16 bias", kBias, ElementType::kBfloat16);
  conv.type("bfloat16 filters of float16", kW, ElementType::kBfloat16);
  norm.type("parameters that are no numbers", 1, ElementType::kUint32);
  norm.word(37, "epsilon NaN", 0, kNan, Code::kAttribute);
  norm.word(37, "epsilon negative", 0, bits(-1), Code::kAttribute);
  norm.dims(30, "parameters of 3 channels for 4", 1, {3}, Code::kShapeWeights);
  softmax.word(37, "float16 softmax with beta infinite", 1, 0x7F800000, Code::kAttribute);
  Rows sum(f, pointwise_bf16, 0), leaky(f, pointwise_bf16, 4), joined(f, moves_f16, 3), cast(f, fused_casts, 4);
  sum.word(35, "a zero point in a bfloat16 sum", 3, 1, Code::kAttributeZero);
  sum.word(36, "a left shift in a bfloat16 sum", 6, 1, Code::kAttribute);
  leaky.word(37, "slope NaN", 0, kNan, Code::kAttribute);
  joined.type("float16 joined with bfloat16", 1, ElementType::kBfloat16);
  cast.type("a cast from a type to itself", 0, ElementType::kBfloat16);
}

}  // namespace

void form_facts(Facts& facts) {
  the_weights_only(facts);
  the_groups(facts);
  the_dynamic_scales(facts);
  the_float8(facts);
  the_float_types(facts);
}

}  // namespace nacre::test
