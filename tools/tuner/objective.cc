#include "tools/tuner/objective.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/ops/loss_elementwise.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/loss_output.h"
#include "tools/model/run_inputs.h"

namespace nacre::tools {
namespace {

bool is_loss(Op op) {
  constexpr Op kLosses[] = {Op::kSoftmaxCrossEntropy, Op::kDenseCrossEntropy, Op::kSigmoidCrossEntropy,
                            Op::kSquaredError,        Op::kAbsoluteError,     Op::kHuber,
                            Op::kInt8CrossEntropy};
  return std::ranges::find(kLosses, op) != std::end(kLosses);
}
bool has_classes(Op op) { return op == Op::kSoftmaxCrossEntropy || op == Op::kInt8CrossEntropy; }
bool is_softmax_loss(Op op) { return has_classes(op) || op == Op::kDenseCrossEntropy; }
bool passes_on(Op op) { return op == Op::kCast || op == Op::kReshape || op == Op::kCopy || op == Op::kDequantize; }

uint32_t gradients_program(const LoadedModel& model, const std::string& target) {
  uint32_t update = 0, index = 0;
  if (model.model().find(Entry::kUpdate, nullptr, &update).ok()) {
    update = model.find_program(Entry::kUpdate, target);
    return model.model().find_beside(update, Entry::kGradients, &index).ok() ? index
                                                                             : update;  // --update immediate: update
  }
  throw Error(kUsage, model.path(), "holds no program that trains",
              "make one: nacre convert NETWORK " + option("train", "LOSS") + " -o MODEL");
}

// Makes operands of a loss over `rows` rows of `width`, from which the op's struct is made.
struct LossOperands {
  TensorRecord record[2] = {};
  Tensor tensor[2] = {};

  LossOperands(int32_t rows, int32_t width) {
    for (int i = 0; i < 2; ++i) {
      record[i].rank = 2;
      record[i].dims[0] = rows;
      record[i].dims[1] = width;
      tensor[i].record = &record[i];
    }
  }
  Operands operands() const { return {tensor, 2, 0}; }
};

constexpr size_t kLabels = ~size_t{0};  // labels are no input of the data

int64_t elements_of(const TensorRecord& r) {
  int64_t product = 1;
  for (int i = 0; i < r.rank; ++i) product *= r.dims[i];
  return product;
}

// Returns x with softmax(x) = p, or sigmoid(x) = p.
double logit(double p, bool softmax) {
  const auto logarithm = [](double q) { return std::log(std::max(q, 0x1p-149)); };
  return softmax ? logarithm(p) : logarithm(p) - logarithm(1 - p);
}

}  // namespace

void Judged::add(const Judged& other) {
  loss += other.loss;
  samples += other.samples;
  right += other.right;
  answers += other.answers;
  not_finite += other.not_finite;
}

double Judged::mean_loss() const { return samples > 0 ? loss / samples : std::nan(""); }
double Judged::accuracy() const { return answers > 0 ? double(right) / double(answers) : std::nan(""); }

Objective::Objective(const LoadedModel& model, const std::string& target)
    : model_(model), program_(gradients_program(model, target)) {
  const ProgramView view = model.model().program(program_);
  const ProgramNames names = model.program_names(program_);
  batch_ = view.batch;
  find_loss();
  find_rows();
  const uint32_t* operands = model.model().operands(model.model().steps()[loss_]);
  const uint32_t label_tensor = origin(view, operands[1] & kOperandIdMask).tensor;
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    const bool labels = view.inputs[i] == label_tensor;
    const SampleSpec spec = spec_of(view.inputs[i], names.inputs[i], labels ? kLabels : inputs_.size());
    if (labels) labels_.sample = spec;
    else if (names.inputs[i] != "learning_rate") inputs_.push_back(spec);
  }
  const ProgramView infer = model.model().program(model.infer_program(target));
  if (labels_.sample.name.empty() || infer.outputs.empty() || inputs_.empty())
    throw Error(kUnsupported, model.path(), "its training program lacks data, labels or an output",
                "convert the network again");
  const auto output = [&](uint32_t program) {
    const ProgramView of = model.model().program(program);
    const uint32_t index = output_of(program);
    return Output{of.outputs[index], rows_.count > 0 ? batch_ : of.batch, index,
                  rows_.count > 0 ? rows_.outer_of_y : 1};
  };
  inferred_ = output(model.infer_program(target));
  if (view.entry == Entry::kGradients && !view.outputs.empty()) trained_ = output(program_);
  const StepRecord& loss = model.model().steps()[loss_];
  const TensorRecord& logits = model.model().tensors()[operands[0] & kOperandIdMask];
  if (has_classes(loss.op)) {
    const Words words = model.model().words(loss);
    labels_.classes = logits.dims[logits.rank - 1];
    if (loss.op == Op::kSoftmaxCrossEntropy && words[CrossEntropy::kIgnore] != 0)
      labels_.ignored = words.integer(CrossEntropy::kIgnoreIndex);
  }
  const Op through = is_softmax_loss(loss.op)              ? Op::kSoftmax
                     : loss.op == Op::kSigmoidCrossEntropy ? Op::kSigmoid
                                                           : Op::kNone;
  const uint32_t last = origin(infer, inferred_.tensor).step, before = origin(view, operands[0] & kOperandIdMask).step;
  probabilities_ = through != Op::kNone && last != kNoIndex && model.model().steps()[last].op == through &&
                   (before == kNoIndex || model.model().steps()[before].op != through);
}

void Objective::find_loss() {
  const ProgramView view = model_.model().program(program_);
  for (uint32_t step = view.first_step; step < view.first_step + view.step_count; ++step)
    if (is_loss(model_.model().steps()[step].op)) loss_ = step;
  if (loss_ == kNoIndex || model_.model().steps()[loss_].operand_count < 2)
    throw Error(kUnsupported, model_.path(), "its training program has no loss that this tool knows");
}

// Reads the rows and the loss's output from the metadata. If it has no rows there, spec_of() uses the tensors' flags.
void Objective::find_rows() {
  for (const auto& [key, value] : model_.metadata()) {
    if (key == kLossOutputKey) output_ = value;
    if (key != kRowsKey) continue;
    try {
      rows_ = parse_rows(value);
    } catch (const JsonError&) {
      throw Error(kBadInput, model_.path(), "its metadata say nothing of its rows that can be read",
                  "convert it again");
    }
  }
  if (rows_.count > 0) batch_ = uint32_t(rows_.count);
}

uint32_t Objective::output_of(uint32_t program) const {
  if (output_.empty()) return 0;
  const std::vector<std::string> names = model_.program_names(program).outputs;
  const auto found = std::ranges::find(names, output_);
  if (found == names.end())
    throw Error(kBadInput, model_.path(), "has no output " + output_ + ", which its loss is of", "convert it again");
  return uint32_t(found - names.begin());
}

// Describes an input. The labels' rows lie like the output's rows.
SampleSpec Objective::spec_of(uint32_t tensor, const std::string& name, size_t data_input) const {
  const TensorRecord& r = model_.model().tensors()[tensor];
  if (rows_.count > 0 && name != "learning_rate") {
    const bool labels = data_input == kLabels;
    const int64_t outer = labels ? rows_.outer_of_y : data_input < rows_.outer.size() ? rows_.outer[data_input] : 0;
    const std::vector<int64_t> whole = {r.dims, r.dims + r.rank};
    SampleSpec spec = {.name = name, .type = r.element, .dims = whole, .scales = model_.scales(tensor), .whole = whole};
    if (outer < 1 || rows_.count > INT32_MAX || spec.elements() % rows_.count != 0 ||
        spec.elements() / rows_.count % outer != 0)
      throw Error(kBadInput, model_.path(), "its metadata say nothing of its rows that fits its input " + name,
                  "convert it again");
    spec.outer = outer, spec.count = rows_.count;
    spec.dims = dims_of_row(whole, outer, rows_.count);
    return spec;
  }
  const bool rows = has_rows(r, batch_);
  if (!rows && name != "learning_rate")
    throw Error(kUnsupported, model_.path(),
                "its input " + name + " has no axis for rows" + (rows_.why.empty() ? "" : ": " + rows_.why),
                "let the network compute every row by itself, from an input with the batch on its first axis");
  return {.name = name,
          .type = r.element,
          .dims = {r.dims + (rows ? 1 : 0), r.dims + r.rank},
          .scales = model_.scales(tensor)};
}

Objective::Origin Objective::origin(const ProgramView& view, uint32_t tensor) const {
  const std::span<const TensorRecord> tensors = model_.model().tensors();
  for (uint32_t step = view.first_step + view.step_count; step-- > view.first_step;) {
    const StepRecord& record = model_.model().steps()[step];
    const uint32_t* operands = model_.model().operands(record);
    bool writes = false;
    for (uint32_t i = 0; i < record.operand_count; ++i) {
      const uint32_t id = operands[i] & kOperandIdMask;
      if (Role(operands[i] >> 30) != Role::kOut || id == kNoOperand) continue;
      writes = writes || id == tensor || tensors[tensor].alias_of == id || tensors[id].alias_of == tensor;
    }
    if (!writes) continue;
    if (!passes_on(record.op)) return {tensor, step};
    tensor = operands[0] & kOperandIdMask;
  }
  return {tensor, kNoIndex};
}

std::string Objective::loss_name() const { return find_rule(model_.model().steps()[loss_].op)->name; }

Judged Objective::judge(const LoadedModel& model, const Output& which, std::span<const std::byte> output,
                        std::span<const uint8_t> labels, uint32_t rows) const {
  const TensorRecord& r = model.model().tensors()[which.tensor];
  StoredElements elements = {.type = r.element, .dims = {r.dims, r.dims + r.rank}, .bytes = {}, .scales = {}};
  if (elements.dims[0] == which.batch) elements.dims[0] = rows;
  else elements.dims = {rows, r.rank == 0 ? 1 : elements_of(r) / which.batch};
  elements.bytes = {reinterpret_cast<const uint8_t*>(output.data()), output.size() / which.batch * rows};
  std::vector<uint8_t> first;  // copy of the rows, each contiguous
  if (which.outer > 1) {
    const size_t outer = size_t(which.outer), part = output.size() / (outer * which.batch);
    first.resize(elements.bytes.size());
    elements.dims = {rows, elements_of(r) / which.batch};
    for (size_t n = 0; n < rows; ++n)
      for (size_t o = 0; o < outer; ++o)
        std::memcpy(&first[(n * outer + o) * part], output.data() + (o * which.batch + n) * part, part);
    elements.bytes = first;
  }
  if (r.element != ElementType::kFloat32) elements.scales = model.scales(which.tensor);
  const std::vector<double> y = decode(elements);
  Judged judged;
  if (labels_.classes > 0) judge_classes(y, labels, &judged);
  else judge_targets(y, labels, rows, &judged);
  judged.not_finite = uint64_t(std::ranges::count_if(y, [](double v) { return std::isnan(v) || v == HUGE_VAL; }));
  return judged;
}

Judged Objective::judge_rows(const LoadedModel& model, const Program& infer, const Dataset& data,
                             std::span<const int64_t> rows, const std::function<bool()>& stop) const {
  const auto batch = uint32_t(whole_batches() ? infer.input(0).size() / data.row(0, rows.empty() ? 0 : rows[0]).size()
                                              : size_t{infer.view().batch});
  const uint32_t index = inferred_.index;  // every model of the network has the outputs in its order
  const Output output = {infer.view().outputs[index], batch, index, inferred_.outer};
  Judged judged;
  for (size_t at = 0; at < rows.size(); at += batch) {
    const std::span<const int64_t> part = rows.subspan(at, std::min(size_t{batch}, rows.size() - at));
    for (size_t i = 0; i < data.inputs.size(); ++i) {
      for (size_t row = 0; row < batch; ++row)
        put_row(infer.input(uint32_t(i)), data.row(i, part[std::min(row, part.size() - 1)]), inputs_[i].outer, row,
                batch);
    }
    std::vector<uint8_t> labels;
    for (const int64_t row : part) labels.insert(labels.end(), data.label(row).begin(), data.label(row).end());
    model.require(infer.run());
    judged.add(judge(model, output, infer.output(index), labels, uint32_t(part.size())));
    if (stop && stop()) break;
  }
  return judged;
}

void Objective::judge_classes(const std::vector<double>& y, std::span<const uint8_t> labels, Judged* judged) const {
  const auto classes = size_t(labels_.classes);
  std::vector<int32_t> label(y.size() / classes);
  std::memcpy(label.data(), labels.data(), label.size() * sizeof(int32_t));
  std::vector<double> logits = y;
  if (probabilities_)
    for (double& v : logits) v = logit(v, true);
  const LossOperands operands(int32_t(label.size()), int32_t(classes));
  const StepRecord& step = model_.model().steps()[loss_];
  // the words of int8_cross_entropy describe its codes, not the loss
  const bool real = step.op == Op::kSoftmaxCrossEntropy;
  float samples = 0;
  const Code code = CrossEntropy::from(real ? model_.model().words(step) : Words(), operands.operands())
                        .of_labels<double>(logits.data(), label.data(), {&judged->loss}, {&samples});
  if (code != Code::kOk) throw Error(kBadInput, model_.path(), "a label is out of range");
  judged->samples = double(samples);
  for (size_t row = 0; row < label.size(); ++row) {
    if (labels_.ignored && label[row] == *labels_.ignored) continue;
    const auto first = y.begin() + std::ptrdiff_t(row * classes);
    judged->right += std::max_element(first, first + std::ptrdiff_t(classes)) - first == label[row] ? 1 : 0;
    ++judged->answers;
  }
}

void Objective::judge_targets(const std::vector<double>& y, std::span<const uint8_t> labels, uint32_t rows,
                              Judged* judged) const {
  const std::vector<double> t =
      decode({.type = labels_.sample.type, .dims = {int64_t(rows), labels_.sample.elements()}, .bytes = labels});
  const StepRecord& step = model_.model().steps()[loss_];
  const Words words = model_.model().words(step);
  const bool softmax = is_softmax_loss(step.op);
  const size_t width = softmax ? size_t(labels_.sample.dims.back()) : y.size() / rows;
  std::vector<double> logits = y;
  if (probabilities_)
    for (double& v : logits) v = logit(v, softmax);
  const LossOperands operands(int32_t(y.size() / width), int32_t(width));
  const ElementwiseLoss loss = ElementwiseLoss::from(words, operands.operands());
  float samples = 0;
  const Update<double> sum = {&judged->loss};
  switch (step.op) {
    case Op::kDenseCrossEntropy:
      CrossEntropy::from(words, operands.operands()).of_targets<double>(logits.data(), t.data(), sum, {&samples});
      break;
    case Op::kSigmoidCrossEntropy: loss.sigmoid<double>(logits.data(), t.data(), sum, {&samples}); break;
    case Op::kSquaredError: loss.squared<double>(logits.data(), t.data(), sum, {&samples}); break;
    case Op::kAbsoluteError: loss.absolute<double>(logits.data(), t.data(), sum, {&samples}); break;
    default: loss.huber<double>(logits.data(), t.data(), sum, {&samples});
  }
  judged->samples = double(samples);
  if (softmax) {
    for (size_t at = 0; at < y.size(); at += width, ++judged->answers) {
      const auto best = [&](const std::vector<double>& v) {
        const auto first = v.begin() + std::ptrdiff_t(at);
        return std::max_element(first, first + std::ptrdiff_t(width)) - first;
      };
      judged->right += best(y) == best(t) ? 1 : 0;
    }
  } else if (step.op == Op::kSigmoidCrossEntropy) {
    for (size_t i = 0; i < y.size(); ++i, ++judged->answers)
      judged->right += (y[i] > (probabilities_ ? 0.5 : 0)) == (t[i] > 0.5) ? 1 : 0;
  }
}

}  // namespace nacre::tools
