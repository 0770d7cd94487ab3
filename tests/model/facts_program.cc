#include <bit>

#include "tests/model/facts.h"

namespace nacre::test {
namespace {

void the_programs(Facts& f) {
  const auto program = [&](int number, const char* text, void (*edit)(ProgramDraft&), Code code,
                           Table table = Table::kProgram, uint32_t index = 0) {
    f.draft(number, text, dense_int8, [edit](Draft& d) { edit(d.programs[0]); }, {code, table, index});
  };
  using P = ProgramDraft;
  program(18, "unknown kind of program", [](P& p) { p.entry = 4; }, Code::kEntry);
  f.draft(18, "two programs of one kind for one target", two_targets,
          [](Draft& d) { d.programs[1].target = "x86/avx2"; }, {Code::kEntry, Table::kProgram, 1});
  program(0, "batch 0", [](P& p) { p.batch = 0; }, Code::kBatch);
  program(0, "batch over 2^28", [](P& p) { p.batch = 1u << 30; }, Code::kBatch);
  program(25, "no bank", [](P& p) { p.banks.clear(), p.bank_names.clear(); }, Code::kBank);
  program(25, "9 banks", [](P& p) { p.banks.resize(9), p.bank_names.clear(); }, Code::kBank);
  program(38, "bank near 2^64: sizes would wrap", [](P& p) { p.banks[0] = ~uint64_t{0}; }, Code::kOverflow);
  program(19, "steps beyond the table", [](P& p) { p.step_count = 3; }, Code::kStepRange);
  program(19, "steps from elsewhere", [](P& p) { p.first_step = 1; }, Code::kStepRange);
  program(19, "first step + count wraps 2^32", [](P& p) { p.step_count = ~0u; }, Code::kStepRange);
  program(19, "no steps", [](P& p) { p.step_count = 0; }, Code::kStepRange);
  program(19, "tensors beyond the table", [](P& p) { p.tensor_count = 4; }, Code::kTensorRange);
  program(19, "tensor count wraps 2^32", [](P& p) { p.tensor_count = ~0u; }, Code::kTensorRange);
  program(19, "first tensor beyond the table", [](P& p) { p.first_tensor = 1000; }, Code::kTensorRange);
  f.draft(19, "programs that share tensors", two_targets, [](Draft& d) { d.programs[1].first_tensor = 1; },
          {Code::kTensorRange, Table::kProgram, 1});
  f.draft(19, "programs that share steps", two_targets, [](Draft& d) { d.programs[1].first_step = 0; },
          {Code::kStepRange, Table::kProgram, 1});
  f.draft(19, "a step of no program", two_targets, [](Draft& d) { d.steps.push_back(d.steps[3]); },
          {Code::kStepRange, Table::kProgram, 2});
  f.draft(19, "a tensor of no program", two_targets, [](Draft& d) { d.tensors.push_back(d.tensors[8]); },
          {Code::kTensorRange, Table::kProgram, 2});

  program(19, "input that does not exist", [](P& p) { p.inputs[0] = 99; }, Code::kInputOutput, Table::kBinding);
  program(19, "output that does not exist", [](P& p) { p.outputs[0] = 99; }, Code::kInputOutput, Table::kBinding);
  program(40, "input that is weights", [](P& p) { p.inputs[0] = 0; }, Code::kInputOutput, Table::kBinding);
  program(40, "output that is weights", [](P& p) { p.outputs[0] = 0; }, Code::kInputOutput, Table::kBinding);
  program(40, "input that is not marked as one", [](P& p) { p.inputs[0] = 7; }, Code::kInputOutput, Table::kBinding);
  f.draft(40, "marked as input, but none", dense_int8,
          [](Draft& d) {
            d.programs[0].inputs.clear(), d.programs[0].input_names.clear(), d.programs[0].input_layouts.clear();
          },
          {Code::kInputOutput, Table::kProgram, 0});
  f.draft(40, "input that lives from the second step", multi_input,
          [](Draft& d) {
            d.tensors[1].first_step = 1;
            std::swap(d.tensors[1], d.tensors[2]);  // by first step
            d.programs[0].inputs[1] = 2, d.programs[0].outputs[0] = 1;
            for (uint32_t& id : d.operands)
              id = (id & ~kOperandIdMask) | ((id & kOperandIdMask) == 1   ? 2
                                             : (id & kOperandIdMask) == 2 ? 1
                                                                          : id & kOperandIdMask);
          },
          {Code::kInputOutput, Table::kBinding, 1});
  f.draft(40, "output that dies before the end", multi_input, [](Draft& d) { d.tensors[2].last_step = 0; },
          {Code::kInputOutput, Table::kBinding, 0});
  f.draft(40, "one tensor is two inputs", multi_input, [](Draft& d) { d.programs[0].inputs[1] = 0; },
          {Code::kDuplicateInput, Table::kBinding, 1});
  f.draft(39, "output that is read instead of written", guarded, [](Draft& d) { d.operands[3] &= kOperandIdMask; },
          {Code::kReadBeforeWrite, Table::kStep, 1});
  f.draft(40, "output that no step writes", multi_input, [](Draft& d) { d.operands[5] = kNoOperand; },
          {Code::kOutputUnwritten, Table::kTensor, 3});
  f.draft(0, "batched tensor of another batch", batched, [](Draft& d) { d.programs[0].batch = 2; },
          {Code::kBatch, Table::kTensor, 2});
  f.draft(0, "batched stream tensor of another batch", stateful,
          [](Draft& d) { d.programs[0].batch = 3, d.tensors[2].flags = kBatched; }, {Code::kBatch, Table::kStep, 3});
  f.draft(19, "golden pair of a program that does not exist", dense_int8, [](Draft& d) { d.golden[0].program = 1; },
          {Code::kGolden, Table::kGolden, 0});
  f.draft(26, "golden pair with fewer input bytes", dense_int8, [](Draft& d) { d.golden[0].inputs.pop_back(); },
          {Code::kGolden, Table::kGolden, 0});
  f.draft(27, "golden pair with more output bytes", dense_int8, [](Draft& d) { d.golden[0].outputs.push_back(0); },
          {Code::kGolden, Table::kGolden, 0});
  f.draft(0, "golden pair with tolerance NaN", dense_int8,
          [](Draft& d) { d.golden[0].tolerance = std::bit_cast<float>(0x7FC00000); },
          {Code::kGolden, Table::kGolden, 0});
}

// Builds w = relu6(a) as the first step and y = relu6(x) as the second. No step reads w, the first record; its lifetime
// is over when x is read.
constexpr uint32_t kFirstInput = 1, kLateInput = 2;
Draft late_input() {
  constexpr ElementType kF32 = ElementType::kFloat32;
  const std::vector<uint32_t> relu = {1, 0, std::bit_cast<uint32_t>(6.0f)};
  Draft d;
  const uint32_t w = d.arena(kF32, {4}, 0, 0, 0);
  const uint32_t a = d.arena(kF32, {4}, 0, 0, 16, kNoIndex, kInput);
  const uint32_t x = d.arena(kF32, {4}, 0, 1, 32, kNoIndex, kInput);
  const uint32_t y = d.arena(kF32, {4}, 1, 1, 48, kNoIndex, kOutput);
  d.step(Op::kClamp, relu, {a}, {w});
  d.step(Op::kClamp, relu, {x}, {y});
  d.program(Entry::kInfer, "", {64});
  return d;
}

void the_plan(Facts& f) {
  const auto tensor = [&](const char* text, Draft (*base)(), uint32_t id, void (*edit)(TensorRecord&), Code code,
                          Table table = Table::kTensor) {
    f.draft(38, text, base, [=](Draft& d) { edit(d.tensors[id]); }, {code, table, id});
  };
  using R = TensorRecord;
  tensor("offset + bytes beyond the arena", dense_int8, 7, [](R& r) { r.offset = 29; }, Code::kBounds);
  tensor(
      "offset near 2^64: offset + bytes wraps", dense_int8, 7, [](R& r) { r.offset = ~uint64_t{0} - 1; },
      Code::kBounds);
  tensor("offset of 2^32: 0 in 32 bits", dense_int8, 7, [](R& r) { r.offset = uint64_t{1} << 32; }, Code::kBounds);
  tensor("float tensor at 2 of 4", batched, 3, [](R& r) { r.offset = 78; }, Code::kOffsetAlignment);
  tensor("two live tensors share bytes", dense_int8, 7, [](R& r) { r.offset = 4; }, Code::kOverlap);
  tensor("one byte shared", dense_int8, 7, [](R& r) { r.offset = 7; }, Code::kOverlap);
  tensor("handed over, but not exactly", conv_add_int8, 8, [](R& r) { r.offset = 66; }, Code::kOverlap);
  f.draft(38, "output over an operand that lives on", conv_add_int8, [](Draft& d) { d.tensors[7].last_step = 2; },
          {Code::kOverlap, Table::kTensor, 8});
  f.draft(38, "a step writes over an input that a later step reads", late_input,
          [](Draft& d) { d.tensors[0].offset = d.tensors[kLateInput].offset; },
          {Code::kOverlap, Table::kTensor, kLateInput});
  f.draft(38, "two inputs share bytes, one of them read by the first step alone", late_input,
          [](Draft& d) { d.tensors[kLateInput].offset = d.tensors[kFirstInput].offset; },
          {Code::kOverlap, Table::kTensor, kLateInput});
  f.draft(38, "two inputs share bytes, both read by the first step alone", late_input,
          [](Draft& d) {
            d.tensors[kLateInput].offset = d.tensors[kFirstInput].offset, d.tensors[kLateInput].last_step = 0;
            d.tensors[0].last_step = 1, d.operands[2] = 0;  // the second step reads w
          },
          {Code::kOverlap, Table::kTensor, kLateInput});
  f.draft(38, "the last step overwrites an output", guarded,
          [](Draft& d) {
            d.tensors[2].flags |= kOutput;
            d.programs[0].outputs.push_back(2), d.programs[0].output_names.push_back("h"),
                d.programs[0].output_layouts.push_back("");
            d.tensors[3].offset = d.tensors[2].offset;
          },
          {Code::kOverlap, Table::kTensor, 3});
  tensor(
      "records not sorted by first step", two_banks, 3, [](R& r) { r.first_step = 2, r.last_step = 2; }, Code::kOrder);
  f.rows.back().expected.index = 4;
  f.draft(38, "an alias before what is none", elided_concat, [](Draft& d) { std::swap(d.tensors[2], d.tensors[3]); },
          {Code::kOrder, Table::kTensor, 3});
  tensor("first step after last step", dense_int8, 7, [](R& r) { r.first_step = 1, r.last_step = 0; }, Code::kLifetime);
  tensor("last step beyond the program", dense_int8, 7, [](R& r) { r.last_step = 2; }, Code::kLifetime);
  tensor("last step 2^32 - 1", dense_int8, 7, [](R& r) { r.last_step = ~0u; }, Code::kLifetime);
}

void the_steps(Facts& f) {
  const auto step = [&](int number, const char* text, void (*edit)(StepRecord&), Code code) {
    f.draft(number, text, dense_int8, [edit](Draft& d) { edit(d.steps[1]); }, {code, Table::kStep, 1});
  };
  using S = StepRecord;
  step(15, "op 0", [](S& s) { s.op = Op::kNone; }, Code::kOpCode);
  step(18, "unknown rounding", [](S& s) { s.rounding = Rounding(99); }, Code::kRounding);
  step(18, "unknown place", [](S& s) { s.place = 8; }, Code::kPlace);
  step(19, "words beyond the table", [](S& s) { s.first_word = 6; }, Code::kWordRange);
  step(19, "first word near 2^32", [](S& s) { s.first_word = ~0u; }, Code::kWordRange);
  step(19, "operands beyond the table", [](S& s) { s.operand_count = 6; }, Code::kOperandRange);
  step(19, "first operand near 2^32", [](S& s) { s.first_operand = ~0u - 2; }, Code::kOperandRange);
  step(19, "layer that does not exist", [](S& s) { s.layer = 2; }, Code::kLayer);
  step(19, "guard that does not exist", [](S& s) { s.guard = 9; }, Code::kOperandId);
  step(18, "guard that is no uint32", [](S& s) { s.guard = 1; }, Code::kGuard);
  step(0, "reserved words of a step", [](S& s) { s.reserved[1] = 1; }, Code::kReserved);
  step(0, "flags of a step", [](S& s) { s.flags = 1; }, Code::kReserved);
  f.draft(39, "guard that no step has written", guarded,
          [](Draft& d) {
            d.tensors[1].flags = 0;
            d.programs[0].inputs.pop_back(), d.programs[0].input_names.pop_back(),
                d.programs[0].input_layouts.pop_back();
          },
          {Code::kReadBeforeWrite, Table::kStep, 1});
  f.draft(39, "guard that is dead", guarded, [](Draft& d) { d.tensors[1].last_step = 0; },
          {Code::kNotLive, Table::kStep, 1});
  f.draft(19, "guard of another program", two_targets,
          [](Draft& d) {
            d.tensors[1].element = ElementType::kUint32, d.tensors[1].dims[1] = 1, d.tensors[1].bytes = 4;
            d.steps[3].guard = 1;
          },
          {Code::kOperandId, Table::kStep, 3});

  const auto operand = [&](int number, const char* text, Draft (*base)(), size_t at, uint32_t word, Code code,
                           uint32_t index) {
    f.draft(number, text, base, [=](Draft& d) { d.operands[at] = word; }, {code, Table::kStep, index});
  };
  constexpr uint32_t kOut = 1u << 30, kUpdate = 2u << 30;
  operand(19, "operand that does not exist", dense_int8, 6, 9, Code::kOperandId, 1);
  operand(19, "operand near 2^30", dense_int8, 6, kNoOperand - 1, Code::kOperandId, 1);
  operand(19, "operand of another program", two_targets, 6, 1, Code::kOperandId, 2);
  f.draft(19, "operand of a later program, whose region is unknown", two_targets,
          [](Draft& d) { d.operands[1] = 5, d.tensors[5].region = Region(110); }, {Code::kOperandId, Table::kStep, 0});
  operand(39, "role 3", dense_int8, 5, 7 | 3u << 30, Code::kRole, 1);
  operand(39, "a step writes weights", dense_int8, 9, 3 | kOut, Code::kRole, 1);
  operand(39, "infer writes state", stateful, 3, 1 | kOut, Code::kRole, 0);
  operand(39, "infer updates state", stateful, 1, 1 | kUpdate, Code::kRole, 0);
  operand(39, "infer writes stream", stateful, 13, 2 | kOut, Code::kRole, 3);
  operand(39, "derive writes state", stateful, 15, 1 | kOut, Code::kRole, 4);
  operand(39, "update of an arena tensor", dense_int8, 5, 7 | kUpdate, Code::kRole, 1);
  operand(20, "an output that is absent", dense_int8, 9, kNoOperand | kOut, Code::kOperandMissing, 1);
  operand(39, "a tensor read before it is written", conv_add_int8, 5, 8, Code::kReadBeforeWrite, 1);
  operand(39, "a cycle: the first step reads what the second writes", stateful, 2, 6, Code::kNotLive, 0);
  operand(39, "a tensor read after its last step", conv_add_int8, 14, 6, Code::kNotLive, 3);
  operand(39, "a step writes an input", multi_input, 2, 1 | kOut, Code::kWrittenTwice, 0);
  operand(39, "a tensor written by a second step", multi_input, 5, 2 | kOut, Code::kWrittenTwice, 1);
  f.draft(39, "a tensor written twice by one step", casts, [](Draft& d) { d.operands[14] = d.operands[13]; },
          {Code::kWrittenTwice, Table::kStep, 3});
  f.draft(39, "two aliases written over each other", elided_concat, [](Draft& d) { d.tensors[4].offset = 0; },
          {Code::kWrittenTwice, Table::kStep, 0});
  f.draft(39, "an alias written over its written target", elided_concat, [](Draft& d) { d.operands[1] = 1 | kOut; },
          {Code::kWrittenTwice, Table::kStep, 0});
  f.draft(39, "a tensor read before its second half is written", elided_concat, [](Draft& d) { d.operands[2] = 1; },
          {Code::kReadBeforeWrite, Table::kStep, 1});
  f.draft(39, "a tensor of which no step writes the second half", elided_concat,
          [](Draft& d) { d.operands[3] = kNoOperand; }, {Code::kReadBeforeWrite, Table::kStep, 2});
}

void the_policies(Facts& f) {
  const auto policy = [&](int number, const char* text, void (*edit)(Policy&), Code code) {
    f.draft(number, text, dense_int8, [edit](Draft& d) { edit(d.layers[1].policy); }, {code, Table::kLayer, 1});
  };
  using P = Policy;
  policy(18, "policy with an unknown variable type", [](P& p) { p.variable = ElementType(99); }, Code::kPolicy);
  policy(18, "policy with compute type 0", [](P& p) { p.compute = ElementType::kNone; }, Code::kPolicy);
  policy(18, "policy with an unknown output type", [](P& p) { p.output = ElementType(255); }, Code::kPolicy);
  policy(18, "policy with an unknown quantization", [](P& p) { p.quantization = Quantization(50); }, Code::kPolicy);
  policy(18, "policy with an unknown update order", [](P& p) { p.update_order = UpdateOrder(2); }, Code::kPolicy);
  policy(18, "policy with an unknown amax rule", [](P& p) { p.amax_rule = AmaxRule(2); }, Code::kPolicy);
  policy(18, "policy with an unknown scale form", [](P& p) { p.scale_form = ScaleForm(2); }, Code::kPolicy);
  policy(18, "policy with an unknown rounding", [](P& p) { p.rounding = 6; }, Code::kPolicy);
  policy(18, "policy with an unknown loss scale", [](P& p) { p.loss_scale = LossScale(3); }, Code::kPolicy);
  policy(37, "loss scale NaN", [](P& p) { p.loss_scale_value = std::bit_cast<float>(0x7FC00000); }, Code::kPolicy);
  policy(37, "loss scale negative", [](P& p) { p.loss_scale_value = -1; }, Code::kPolicy);
  policy(18, "zero point rule 2 of activations", [](P& p) { p.activation_zero = 2; }, Code::kPolicy);
  policy(18, "group range 2", [](P& p) { p.group_range = GroupRange(2); }, Code::kPolicy);
  policy(18, "operation rounding 2", [](P& p) { p.operation_rounding = OperationRounding(2); }, Code::kPolicy);
  policy(18, "weight fit 3", [](P& p) { p.weight_fit = WeightFit(3); }, Code::kPolicy);
  policy(18, "codes of 9 bits", [](P& p) { p.weight_bits = 9; }, Code::kPolicy);
  policy(18, "activation order 2", [](P& p) { p.activation_order = 2; }, Code::kPolicy);
  policy(0, "reserved bytes of a policy", [](P& p) { p.reserved[5] = 1; }, Code::kReserved);
}

}  // namespace

void program_facts(Facts& facts) {
  the_programs(facts);
  the_plan(facts);
  the_steps(facts);
  the_policies(facts);
}

}  // namespace nacre::test
