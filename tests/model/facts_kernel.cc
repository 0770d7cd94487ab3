#include <bit>

#include "engine/kernels/reference.h"
#include "tests/model/facts.h"

namespace nacre::test {
namespace {

constexpr uint32_t word(int v) { return uint32_t(v); }
constexpr uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
constexpr uint32_t kNan = 0x7FC00000;

// A kernel set without convolutions, as in firmware that links only what another model needs.
const KernelEntry* const kSome[] = {&reference::kDenseF32, &reference::kDenseI8Single, &reference::kTanhF32};
const KernelSet kSomeKernels = {"some", kSome};
const KernelSet* const kSomeSets[] = {&kSomeKernels};

class Rows {
 public:
  Rows(Facts& facts, Draft (*base)()) : f_(facts), base_(base) {}

  // Sets the model's attribute word `at` to `value`: measure must refuse `step`.
  void words(int number, const char* text, size_t at, uint32_t value, Code code, uint32_t step) {
    f_.draft(number, text, base_, [=](Draft& d) { d.words[at] = value; }, {code, Table::kStep, step, Stage::kMeasure});
  }
  void edit(int number, const char* text, void (*mutate)(Draft&), Code code, uint32_t step) {
    f_.draft(number, text, base_, mutate, {code, Table::kStep, step, Stage::kMeasure});
  }
  // Gives a tensor these dims in place of those that were declared.
  void dims(int number, const char* text, uint32_t id, std::vector<int32_t> dims, Code code, uint32_t step) {
    f_.draft(number, text, base_,
             [=](Draft& d) {
               TensorRecord& r = d.tensors[id];
               uint64_t elements = 1;
               r.rank = uint8_t(dims.size());
               for (size_t i = 0; i < kMaxRank; ++i) {
                 r.dims[i] = i < dims.size() ? dims[i] : 0;
                 elements *= i < dims.size() ? uint64_t(dims[i]) : 1;
               }
               r.bytes = storage_bytes(r.element, elements);
             },
             {code, Table::kStep, step, Stage::kMeasure});
  }

 private:
  Facts& f_;
  Draft (*base_)();
};

void the_entries(Facts& f) {
  Rows dense(f, dense_int8);
  f.draft(16, "an op that is not linked", conv_add_int8, {}, {Code::kNoKernel, Table::kStep, 0, Stage::kMeasure});
  f.last().kernels = kSomeSets;
  f.draft(16, "a rounding that is not linked", dense_int8, {}, {Code::kNoKernel, Table::kStep, 0, Stage::kMeasure});
  f.last().kernels = kSomeSets;
  dense.edit(16, "an op of no version", [](Draft& d) { d.steps[1].op = Op(60000); }, Code::kNoKernel, 1);
  dense.edit(
      16, "types that no kernel takes", [](Draft& d) { d.tensors[1].element = ElementType::kUint32; }, Code::kNoKernel,
      0);
  dense.edit(
      20, "an operand too few", [](Draft& d) { d.operands[8] = d.operands[9], d.steps[1].operand_count = 4; },
      Code::kOperandCount, 1);
  dense.edit(
      20, "no operands",
      [](Draft& d) {
        d.steps.insert(d.steps.begin() + 1, d.steps[1]);
        d.steps[1].operand_count = 0;
        d.programs[0].step_count = 3;
        d.tensors[7].last_step = d.tensors[8].first_step = d.tensors[8].last_step = 2;
      },
      Code::kOperandCount, 1);
  f.draft(20, "65 operands", moves,
          [](Draft& d) {
            d.steps[3].first_operand = uint32_t(d.operands.size());
            d.steps[3].operand_count = 65;
            for (int i = 0; i < 64; ++i) d.operands.push_back(2);
            d.operands.push_back(4 | 1u << 30);
          },
          {Code::kOperandCount, Table::kStep, 3, Stage::kMeasure});
  dense.edit(20, "weights that are absent", [](Draft& d) { d.operands[6] = kNoOperand; }, Code::kOperandMissing, 1);
  dense.edit(
      20, "an operand too many",
      [](Draft& d) {
        d.steps[1].first_operand = uint32_t(d.operands.size());
        d.steps[1].operand_count = 8;
        for (const uint32_t id : {7u, 3u, 4u, 5u, 5u, 5u, 5u, 8u | 1u << 30}) d.operands.push_back(id);
      },
      Code::kOperandCount, 1);
  f.draft(20, "a scale without its zero point", casts, [](Draft& d) { d.operands[20] = kNoOperand; },
          {Code::kOperandMissing, Table::kStep, 4, Stage::kMeasure});
  f.draft(39, "an output where an input belongs", casts, [](Draft& d) { std::swap(d.operands[13], d.operands[11]); },
          {Code::kRole, Table::kStep, 3, Stage::kMeasure});
  f.draft(38, "in place, of a kernel that cannot", moves, [](Draft& d) { d.tensors[2].offset = 0; },
          {Code::kInPlace, Table::kStep, 1, Stage::kMeasure});
  f.draft(44, "more multiply-accumulates than the caller allows", float_chain, {},
          {Code::kWork, Table::kStep, 1, Stage::kMeasure});
  f.last().limits.work = 2000;
}

void the_matrices(Facts& f) {
  Rows dense(f, dense_int8);
  dense.dims(30, "weights that do not fit the input", 3, {4, 3}, Code::kShapeWeights, 1);
  dense.dims(21, "weights of rank 1", 3, {12}, Code::kShapeRank, 1);
  f.draft(21, "input of rank 0", dense_int8,
          [](Draft& d) {
            d.tensors[6].rank = 0, d.tensors[6].dims[0] = d.tensors[6].dims[1] = 0, d.tensors[6].bytes = 1,
            d.golden.clear();
          },
          {Code::kShapeRank, Table::kStep, 0, Stage::kMeasure});
  dense.dims(30, "bias of another length", 1, {3}, Code::kShapeBias, 0);
  dense.dims(30, "bias of rank 2", 1, {4, 1}, Code::kShapeBias, 0);
  dense.dims(34, "2 multipliers for 3 channels", 5, {2, 2}, Code::kShapeScale, 1);
  dense.dims(34, "multipliers that are no pairs", 5, {6, 1}, Code::kShapeScale, 1);
  dense.dims(32, "output of another width", 8, {1, 2}, Code::kShapeOutput, 1);
  f.rows.back().draft = [](Draft& d) { d.tensors[8].dims[1] = 2, d.tensors[8].bytes = 2, d.golden.clear(); };
  dense.dims(32, "output of another rank", 8, {3}, Code::kShapeOutput, 1);
  dense.words(35, "zero point of the input 128", 3, 128, Code::kAttributeZero, 0);
  dense.words(35, "zero point of the output -129", 9, word(-129), Code::kAttributeZero, 1);
  dense.words(42, "clamp with lower over upper bound", 1, 127, Code::kOk, 0);
  f.rows.back().draft = [](Draft& d) { d.words[1] = 5, d.words[2] = 4; };
  f.rows.back().expected.code = Code::kClamp;
  dense.words(42, "clamp bound that is no code", 2, 128, Code::kClamp, 0);
  dense.words(42, "unknown kind of clamp", 0, 2, Code::kAttribute, 0);
  f.draft(36, "so many terms that the sum could overflow", dense_int8,
          [](Draft& d) {
            d.tensors[0].dims[1] = d.tensors[6].dims[1] = 65794;  // and the size that follows from it
            d.tensors[0].bytes = 4 * 65794, d.tensors[6].bytes = 65794;
            d.tensors[7].offset = 1 << 17, d.programs[0].banks[0] = 1 << 18;
            for (uint32_t id = 1; id < 6; ++id) d.tensors[id].offset += 1 << 19;
            d.segments[0].resize(1 << 20);
            d.golden.clear();
          },
          {Code::kAccumulator, Table::kStep, 0, Stage::kMeasure});

  Rows floats(f, float_chain);
  floats.words(42, "clamp bound NaN", 9, kNan, Code::kClamp, 0);
  floats.words(42, "clamp with lower over upper bound, float", 9, bits(7), Code::kClamp, 0);
  Rows batch(f, batched);
  batch.words(42, "clamp step with upper bound NaN", 2, kNan, Code::kClamp, 1);
}

void the_windows(Facts& f) {
  Rows conv(f, conv_add_int8);
  conv.dims(21, "convolution of rank 3", 6, {5, 5, 2}, Code::kShapeRank, 0);
  conv.dims(21, "filters of rank 2", 0, {2, 18}, Code::kShapeRank, 0);
  conv.dims(30, "filters for other channels", 0, {4, 3, 3, 1}, Code::kShapeWeights, 0);
  conv.words(30, "groups that do not divide the channels", 13, 2, Code::kGroups, 0);
  conv.words(30, "groups 0", 13, ~0u, Code::kGroups, 0);
  conv.words(30, "groups 2^31", 13, (1u << 31) - 1, Code::kGroups, 0);
  conv.words(31, "stride 0", 0, ~0u, Code::kStride, 0);
  conv.words(31, "stride 2^31", 1, (1u << 31) - 1, Code::kStride, 0);
  conv.words(31, "dilation 0", 2, ~0u, Code::kStride, 0);
  conv.words(31, "dilation over 2^14", 3, 1 << 14, Code::kStride, 0);
  conv.words(31, "pads as large as the kernel", 4, 3, Code::kPadding, 0);
  conv.words(31, "pads negative", 6, word(-1), Code::kPadding, 0);
  conv.words(31, "window over the padded input", 2, 3, Code::kWindow, 0);
  conv.words(32, "stride that makes another output", 0, 1, Code::kShapeOutput, 0);

  Rows floats(f, float_chain);
  floats.dims(30, "depth multiplier 0", 2, {12, 3, 2}, Code::kShapeWeights, 1);
  floats.dims(30, "depth multiplier 1.5", 2, {4, 3, 6}, Code::kShapeWeights, 1);
  floats.words(31, "pool kernel 0", 27, ~0u, Code::kStride, 2);
  floats.words(31, "pool kernel over the input", 28, 6, Code::kWindow, 2);
}

void the_others(Facts& f) {
  Rows add(f, conv_add_int8);
  add.words(36, "left shift 32", 20, 32, Code::kAttribute, 1);
  add.dims(34, "two multipliers where three belong", 3, {2, 2}, Code::kShapeScale, 1);
  add.words(33, "softmax axis beyond the rank", 26, 2, Code::kAttributeAxis, 3);
  add.words(33, "softmax axis -1", 26, ~0u, Code::kAttributeAxis, 3);
  add.words(36, "softmax multiplier negative", 28, 1u << 31, Code::kAttribute, 3);
  add.words(36, "softmax shift 32", 29, 32, Code::kAttribute, 3);
  add.words(36, "softmax shift -1", 29, ~0u, Code::kAttribute, 3);
  add.words(36, "softmax difference positive", 30, 1, Code::kAttribute, 3);
  Rows floats(f, float_chain);
  floats.words(33, "mean axis beyond the rank", 29, 1 << 4, Code::kAttributeAxis, 3);
  floats.words(33, "mean axis 31", 29, 1u << 31, Code::kAttributeAxis, 3);
  floats.words(37, "softmax beta NaN", 32, kNan, Code::kAttribute, 5);
  floats.words(32, "mean that keeps its dims, declared without", 30, 1, Code::kShapeOutput, 3);
  Rows two(f, multi_input);
  two.dims(30, "broadcast of 2 over 3", 1, {2, 1}, Code::kShapeInput, 0);
  Rows moved(f, moves);
  moved.words(33, "transpose of one axis twice", 18, 0, Code::kPermutation, 1);
  moved.words(33, "transpose of axis 7", 19, 7, Code::kPermutation, 1);
  moved.words(33, "concat axis beyond the rank", 38, 2, Code::kAttributeAxis, 3);
  moved.words(33, "slice begins beyond the end", 20, 4, Code::kBounds, 2);
  moved.words(33, "slice of more than there is", 28, 5, Code::kBounds, 2);
  moved.words(33, "slice ends before the start", 20, 1, Code::kBounds, 2);
  moved.words(31, "slice step 0", 36, ~0u, Code::kStride, 2);
  moved.words(31, "pad of 2^31", 0, 1u << 31, Code::kPadding, 0);
  moved.words(18, "unknown mode of pad", 17, 3, Code::kAttribute, 0);
  moved.words(35, "pad with a value that is no code", 16, 200, Code::kAttribute, 0);
  Rows cast(f, casts);
  cast.words(33, "rows of a dynamic scale beyond the rank", 4, 3, Code::kAttributeAxis, 3);
  cast.words(18, "unknown kind of dynamic scale", 5, 2, Code::kAttribute, 3);
  cast.words(35, "requantize from zero point 300", 1, 300, Code::kAttributeZero, 1);
  cast.dims(34, "scale of a quantize step of rank 2", 0, {1, 1}, Code::kShapeScale, 0);
  f.draft(33, "reshape to other elements", reshaped, [](Draft& d) { d.words[1] = 4; },
          {Code::kElements, Table::kStep, 0, Stage::kMeasure});
  f.draft(33, "reshape to elements that wrap 2^32", reshaped,
          [](Draft& d) { d.words[1] = 1u << 17, d.words[2] = 1u << 15; },
          {Code::kElements, Table::kStep, 0, Stage::kMeasure});
  f.draft(21, "reshape to rank 9", reshaped, [](Draft& d) { d.words[0] = 9; },
          {Code::kShapeRank, Table::kStep, 0, Stage::kMeasure});
  f.draft(22, "reshape to a dimension 0", reshaped, [](Draft& d) { d.words[2] = 0; },
          {Code::kAttribute, Table::kStep, 0, Stage::kMeasure});
}

}  // namespace

void kernel_facts(Facts& facts) {
  the_entries(facts);
  the_matrices(facts);
  the_windows(facts);
  the_others(facts);
}

std::span<const Absent> absent_facts() {
  static constexpr Absent kNoRow[] = {
      {"11", "nesting deeper than a limit: the schema nests once, and open follows no table inside a table"},
      {"17", "unions: the schema has none; attributes are words, checked by the op (18, 30 to 33, 42)"},
      {"35", "a zero point of symmetric weights: no step has a field for one"},
      {"36",
       "bias scale unequal to input scale times weight scale: a bias enters in the accumulator's units, unscaled"},
      {"46, 47", "checkpoints: of another model or layout: tests/train/checkpoint_test.cc"}};
  return kNoRow;
}

}  // namespace nacre::test
