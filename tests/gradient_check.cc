#include "tests/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/training.h"
#include "tests/op_rows.h"

namespace nacre::test {
namespace {

bool is_real(ElementType element) { return element == ElementType::kFloat32 || element == ElementType::kFloat64; }

int place_of_input(const Linearized& step, int input) { return variadic(*step.entry) ? 0 : input; }

// Returns the outputs that f sums or, for a loss, the sum that it updates.
std::vector<Array> values(const Linearized& step, const GradientCase& made) {
  if (step.row->surrogate != nullptr) return step.row->surrogate(made);
  const Execution run = execute(*step.entry, made.words, made.inputs);
  return run.outputs.empty() ? std::vector<Array>{run.updated.at(0)} : run.outputs;
}

// Returns the factor of value i of an output in f.
double weight(const Linearized& step, size_t output, int64_t i) {
  if (step.outputs.empty()) return step.seed.real(0);
  return step.dy[output].present() ? step.dy[output].real(i) : 0;
}

// An operand list made of records, as the `words` function of the table needs it.
struct Records {
  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;

  explicit Records(const std::vector<Array>& arrays) : records(arrays.size(), TensorRecord{}) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      TensorRecord& record = records[i];
      record.element = arrays[i].element;
      record.rank = uint8_t(arrays[i].dims.size());
      std::copy(arrays[i].dims.begin(), arrays[i].dims.end(), record.dims);
      tensors.push_back({nullptr, arrays[i].present() ? &record : nullptr});
    }
  }
  Operands operands() const { return {tensors.data(), int(tensors.size()), 0}; }
};

std::vector<uint32_t> words_of(const Linearized& step, const Gradient& row, int input) {
  if (row.words == nullptr) return step.made.words;
  std::vector<Array> operands = step.made.inputs;
  operands.insert(operands.end(), step.outputs.begin(), step.outputs.end());
  const Records records(operands);
  uint32_t made[4 * kMaxRank] = {};  // slice_gradient has the most words of all
  const int count = row.words({step.made.words.data(), int(step.made.words.size())}, records.operands(), input, made);
  return {made, made + count};
}

// Returns how many outputs the table reads. An op may have a form with more outputs than inference needs.
size_t outputs_read(const OpRule& rule) {
  size_t count = 0;
  for (const Gradient& row : rule.gradients)
    for (const GradientRead& read : row.reads)
      if (read.source == GradientRead::kForwardOutput) count = std::max(count, size_t(read.index) + 1);
  return count;
}

// Returns how many outputs a row's step has. An absent input has none.
size_t outputs_of(const Linearized& step, const Gradient& row) {
  if (row.adds || variadic(*step.entry)) return 0;
  return size_t(std::count_if(row.of.begin(), row.of.end(), [&](uint8_t input) {
    return input < step.made.inputs.size() && step.made.inputs[input].present();
  }));
}

void negate(Array& array, size_t element) {
  const auto i = int64_t(element % size_t(array.elements()));
  array.set(i, -array.real(i));
}

void reverse(Array& array) {
  if (array.elements() < 1) return;
  const size_t size = array.bytes.size() / size_t(array.elements()), count = size_t(array.elements());
  const std::vector<uint8_t> from = array.bytes;
  for (size_t i = 0; i < count; ++i) std::memcpy(&array.bytes[i * size], &from[(count - 1 - i) * size], size);
}

// Returns an operand that the row reads, after the mutation.
Array read_operand(const Linearized& step, const Target& target, size_t read, const Mutation& mutation,
                   TableGradient& made) {
  const GradientRead& source = step.rule->gradients[target.row].reads[read];
  Array array;
  switch (source.source) {
    case GradientRead::kForwardInput:
      if (source.index < step.made.inputs.size()) array = step.made.inputs[source.index];
      break;
    case GradientRead::kForwardOutput: array = step.outputs.at(source.index); break;
    case GradientRead::kGradient: array = step.dy.at(source.index); break;
    case GradientRead::kSeed: array = step.seed; break;
    case GradientRead::kInputGradient: {
      for (const Target& other : targets(step))
        if (other.row < target.row && other.input == int(source.index)) {
          const TableGradient earlier = table_gradient(step, other, mutation);
          made.changed |= earlier.changed;
          array = earlier.value;
          break;
        }
      break;
    }
  }
  if (!array.present()) return array;
  const std::vector<uint8_t> before = array.bytes;
  const bool backward = source.source == GradientRead::kGradient || source.source == GradientRead::kSeed;
  if (mutation.kind == Mutation::kTerm && backward) negate(array, mutation.element);
  if (mutation.kind == Mutation::kReversed && mutation.read == int(read)) reverse(array);
  made.changed |= array.bytes != before;
  return array;
}

GradientStep mutated_step(const Linearized& step, const Target& target, const Mutation& mutation, TableGradient& made) {
  const Gradient& row = step.rule->gradients[target.row];
  GradientStep gradient = {nullptr, words_of(step, row, target.input), {}};
  for (size_t read = 0; read < row.reads.size(); ++read)
    gradient.operands.push_back(read_operand(step, target, read, mutation, made));
  if (row.adds) {  // a sum other than 0 shows that the step adds
    const Array& input = step.made.inputs[size_t(target.input)];
    gradient.operands.push_back(make_array(input.element, input.dims));
    Array& sum = gradient.operands.back();
    for (int64_t i = 0; i < sum.elements(); ++i) sum.set(i, double(i % 5) - 2);
  }
  gradient.entry = find_kernel(row.by, Rounding::kNone, gradient.operands, outputs_of(step, row));
  return gradient;
}

}  // namespace

GradientStep gradient_step(const Linearized& step, const Target& target) {
  TableGradient made;
  return mutated_step(step, target, {}, made);
}

const KernelEntry* find_kernel(Op op, Rounding rounding, const std::vector<Array>& inputs, size_t outputs) {
  const auto fits = [&](const KernelEntry& entry) {
    if (entry.op != op || entry.rounding != rounding) return false;
    const bool any = variadic(entry);
    if (!any && input_count(entry) != int(inputs.size())) return false;
    if (!any && size_t(int(entry.operand_count) - input_count(entry)) < outputs) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const OperandType& type = entry.operands[any ? 0 : i];
      if (!inputs[i].present() ? (type.role & kOptional) == 0 : type.element != inputs[i].element) return false;
    }
    return true;
  };
  for (const auto& list : {reference::list(), reference::training_list()})
    for (const reference::NamedEntry& named : list)
      if (fits(*named.entry)) return named.entry;
  return nullptr;
}

Linearized linearize(const OpRow& row, const GradientCase& made, Random& random) {
  Linearized step;
  step.row = &row;
  step.rule = find_rule(row.op);
  step.made = made;
  step.entry = find_kernel(row.op, made.rounding, made.inputs, outputs_read(*step.rule));
  if (step.entry == nullptr) {
    step.why = "no float64 kernel";
    return step;
  }
  const Execution run = execute(*step.entry, made.words, made.inputs);
  if (run.code != Code::kOk) step.why = "refused with code " + std::to_string(int(run.code));
  if (run.overrun) step.why = "wrote outside its outputs";
  if (run.impure) step.why = "wrote an input";
  step.outputs = run.outputs;
  step.dy.resize(run.outputs.size());
  for (const Gradient& gradient : step.rule->gradients)
    for (const GradientRead& read : gradient.reads)
      if (read.source == GradientRead::kGradient && !step.dy.at(read.index).present()) {
        Array& dy = step.dy[read.index];
        dy = make_array(step.outputs[read.index].element, step.outputs[read.index].dims);
        // dy is never near 0, so that another sign is another value. It has three significant bits, so that even
        // rounding to float8 keeps it.
        for (int64_t i = 0; i < dy.elements(); ++i)
          dy.set(i, std::ldexp((random() % 2 == 0 ? 1 : -1) * (1 + double(random() % 4) / 4), -int(random() % 3)));
      }
  step.seed = array_of<double>(ElementType::kFloat32, {1}, {1.5});
  return step;
}

bool has_target(const OpRule& rule, int input) {
  return std::any_of(rule.gradients.begin(), rule.gradients.end(), [&](const Gradient& row) {
    return std::find(row.of.begin(), row.of.end(), uint8_t(input)) != row.of.end();
  });
}

std::vector<Target> targets(const Linearized& step) {
  std::vector<Target> all;
  for (size_t row = 0; row < step.rule->gradients.size(); ++row)
    for (int input = 0; input < int(step.made.inputs.size()); ++input) {
      const auto& of = step.rule->gradients[row].of;
      const bool meant = std::find(of.begin(), of.end(), uint8_t(place_of_input(step, input))) != of.end();
      if (meant && step.made.inputs[size_t(input)].present()) all.push_back({row, input});
    }
  return all;
}

TableGradient table_gradient(const Linearized& step, const Target& target, const Mutation& mutation) {
  TableGradient made;
  const Gradient& row = step.rule->gradients[target.row];
  const auto [entry, words, operands] = mutated_step(step, target, mutation, made);
  const Array& input = step.made.inputs[size_t(target.input)];
  if (row.by == Op::kNone) {  // the input's gradient is the output's
    made.value = operands.at(0);
    return made;
  }
  if (entry == nullptr) {
    made.why =
        "no float64 kernel of " + std::string(find_rule(row.by) == nullptr ? "an unknown op" : find_rule(row.by)->name);
    return made;
  }
  const Execution run = execute(*entry, words, operands);
  if (run.code != Code::kOk) made.why = "refused with code " + std::to_string(int(run.code));
  if (run.overrun) made.why = "wrote outside its outputs";
  if (run.impure) made.why = "wrote an input";
  if (!made.why.empty()) return made;
  if (row.adds) {
    made.value = run.updated.back();
    for (int64_t i = 0; i < input.elements(); ++i) made.value.set(i, made.value.real(i) - operands.back().real(i));
  } else {
    const auto at =
        std::find(row.of.begin(), row.of.end(), uint8_t(place_of_input(step, target.input))) - row.of.begin();
    if (size_t(at) >= run.outputs.size()) made.why = "has no output for it";
    else made.value = run.outputs[size_t(at)];
  }
  if (made.why.empty() && made.value.dims != input.dims)
    made.why = "gives " + made.value.text() + " for " + input.text();
  if (made.why.empty() && mutation.kind == Mutation::kElement) {
    const std::vector<uint8_t> before = made.value.bytes;
    negate(made.value, mutation.element);
    made.changed |= made.value.bytes != before;
  }
  return made;
}

Difference difference(const Linearized& step, int input, int64_t element) {
  constexpr double u = std::numeric_limits<double>::epsilon() / 2;
  GradientCase moved = step.made;
  Array& x = moved.inputs[size_t(input)];
  const double at = x.real(element);
  const auto f = [&](double v) {
    x.set(element, v);
    return values(step, moved);
  };
  double quotient[2] = {}, touched = 0, all = 0, largest_y = 0;
  for (int s = 1; s <= 2; ++s) {
    const std::vector<Array> up = f(at + s * kDifference), down = f(at - s * kDifference);
    for (size_t o = 0; o < up.size(); ++o)
      for (int64_t i = 0; is_real(up[o].element) && i < up[o].elements(); ++i) {
        const double w = weight(step, o, i), a = up[o].real(i), b = down[o].real(i);
        if (w == 0) continue;
        quotient[s - 1] += (a - b) * w / (2 * s * kDifference);
        if (s == 2) continue;
        all += std::abs(w);
        if (a != b) touched += std::abs(w);
        largest_y = std::max({largest_y, std::abs(a), std::abs(b)});
      }
  }
  double largest_x = 1;
  for (const Array& array : step.made.inputs)
    for (int64_t i = 0; is_real(array.element) && i < array.elements(); ++i)
      largest_x = std::max(largest_x, std::abs(array.real(i)));
  std::vector<Array> operands = step.made.inputs;
  operands.insert(operands.end(), step.outputs.begin(), step.outputs.end());
  const Records records(operands);
  const Words words = {step.made.words.data(), int(step.made.words.size())};
  const double made = step.outputs.empty() ? 1 : double(step.outputs[0].elements());
  const double terms = std::max(1.0, double(step.entry->work(words, records.operands())) / made);
  const double rounding = u * (terms + 512) * (terms * largest_x * largest_x + largest_y + largest_x);
  return {quotient[0], std::abs(quotient[1] - quotient[0]) + rounding * (touched / kDifference + all)};
}

}  // namespace nacre::test
