#include "tools/model/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/numeric/small_float.h"
#include "tools/base/budget.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/base/split_mix64.h"

namespace nacre::tools {
namespace {

template <class T>
void append(std::vector<uint8_t>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Appends the number that the random bits z give. `entries`: size of the smallest table that it is an index of, or 0.
void append_element(std::vector<uint8_t>& bytes, ElementType type, uint64_t z, uint64_t entries) {
  const double real = double(z >> 40) / 0x1p24 * 2 - 1;
  const auto top = [&](int bits) { return entries == 0 ? z >> (64 - bits) : (z >> (64 - bits)) % entries; };
  switch (type) {
    case ElementType::kFloat32: return append(bytes, float(real));
    case ElementType::kFloat64: return append(bytes, real);
    case ElementType::kFloat16: return append(bytes, Float16(real).bits);
    case ElementType::kBfloat16: return append(bytes, Bfloat16(real).bits);
    case ElementType::kInt8:
    case ElementType::kUint8: return append(bytes, uint8_t(top(8)));
    case ElementType::kInt16: return append(bytes, uint16_t(top(16)));
    case ElementType::kBool: return append(bytes, uint8_t(z >> 63));
    case ElementType::kInt32:
    case ElementType::kUint32: return append(bytes, uint32_t(top(7)));
    case ElementType::kInt64: return append(bytes, top(7));
    default: throw Error(kUnsupported, "seeded inputs", std::string("no rule for elements of type ") + name_of(type));
  }
}

// Finds how many entries the smallest table has that a tensor holds row indices of; 0 if it holds none. An
// embedding's indices have its table. So have the tensors that are moved, cast or selected to make the indices. An
// operand that is added to make an index counts as having 1 entry: its seeded number is then 0.
class TableEntries {
 public:
  TableEntries(const LoadedModel& model, uint32_t program)
      : model_(model.model()), entries_(model_.tensors().size(), 0) {
    const ProgramView p = model_.program(program);
    for (uint32_t i = p.step_count; i-- > 0;) read(model_.steps()[p.first_step + i]);
  }

  uint64_t of(uint32_t tensor) const { return entries_[root(tensor)]; }

 private:
  uint32_t root(uint32_t id) const {
    const uint32_t target = model_.tensors()[id].alias_of;
    return target == kNoIndex ? id : target;
  }

  void limit(uint32_t operand, uint64_t entries) {
    const uint32_t id = operand & kOperandIdMask;
    if (id == kNoOperand || entries == 0) return;
    uint64_t& known = entries_[root(id)];
    known = known == 0 ? entries : std::min(known, entries);
  }

  void read(const StepRecord& step) {
    const uint32_t* operands = model_.operands(step);
    if (step.op == Op::kEmbedding)
      return limit(operands[1], uint64_t(model_.tensors()[operands[0] & kOperandIdMask].dims[0]));
    const OpRule* rule = find_rule(step.op);
    const bool adds = step.op == Op::kAdd, keeps = step.op == Op::kCast || step.op == Op::kSelect;
    if (rule == nullptr || (rule->numerics != Numerics::kMove && !adds && !keeps)) return;
    const uint64_t entries = of(operands[step.operand_count - 1] & kOperandIdMask);
    for (uint32_t i = 0; i + 1 < step.operand_count; ++i) limit(operands[i], adds && entries != 0 ? 1 : entries);
  }

  const Model& model_;
  std::vector<uint64_t> entries_;  // by tensor; aliases have the entry of their root
};

template <class T>
double largest_difference(const uint8_t* expected, const uint8_t* found, uint64_t bytes) {
  double worst = 0, magnitude = 0;
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, expected + at, sizeof a);
    std::memcpy(&b, found + at, sizeof b);
    if (std::isfinite(a)) magnitude = std::max(magnitude, std::fabs(double(a)));
    if (std::memcmp(&a, &b, sizeof a) == 0 || a == b) continue;
    const double distance = std::fabs(double(a) - double(b));
    worst = std::max(worst, std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance);
  }
  return worst == 0 ? 0 : worst / magnitude;
}

}  // namespace

namespace {

uint64_t bytes_of(const LoadedModel& model, std::span<const uint32_t> tensors) {
  uint64_t sum = 0;
  for (const uint32_t id : tensors) sum += model.model().tensors()[id].bytes;
  return sum;
}

uint64_t input_bytes(const LoadedModel& model, uint32_t program) {
  return bytes_of(model, model.model().program(program).inputs);
}

}  // namespace

std::vector<uint8_t> seeded_inputs(const LoadedModel& model, uint32_t program, uint64_t seed) {
  Budget(model.model().bytes().size())
      .take(input_bytes(model, program), model.path(), "random inputs", "give the inputs in files");
  SplitMix64 random(seed);
  std::vector<uint8_t> bytes;
  bytes.reserve(size_t(input_bytes(model, program)));
  const TableEntries entries(model, program);
  for (const uint32_t id : model.model().program(program).inputs) {
    const TensorRecord& r = model.model().tensors()[id];
    const uint32_t size = std::max<uint32_t>(1, element_bits(r.element) / 8);
    for (uint64_t i = 0; i < r.bytes / size; ++i) append_element(bytes, r.element, random.next(), entries.of(id));
  }
  return bytes;
}

std::vector<GoldenPair> make_golden(const LoadedModel& model, uint32_t program, uint32_t count) {
  if (count == 0) return {};
  const ProgramView& view = model.model().program(program);
  Budget budget(model.model().bytes().size());
  budget.take(count * (bytes_of(model, view.inputs) + bytes_of(model, view.outputs)), model.path(),
              counted(count, "golden pair"),
              "ask for fewer with " + option("golden") + ", or convert with a smaller batch");
  budget.take(measure(model, program).total(), model.path(), "golden pairs, and running the network for them",
              "convert without " + option("golden") + ", or with a smaller batch");
  const auto is_float = [&](uint32_t id) {
    const ElementType type = model.model().tensors()[id].element;
    return type == ElementType::kFloat32 || type == ElementType::kFloat64;
  };
  const float tolerance = std::ranges::any_of(model.model().program(program).outputs, is_float) ? kFloatTolerance : 0;
  std::vector<GoldenPair> pairs;
  for (uint32_t i = 0; i < count; ++i) {
    BoundProgram bound(model, program);  // a new one for each pair, so that its streams are zero
    GoldenPair pair = {program, seeded_inputs(model, program, i + 1), {}, tolerance};
    pair.outputs = bound.run(pair.inputs);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Difference difference(const LoadedModel& model, uint32_t program, std::span<const uint8_t> expected,
                      std::span<const uint8_t> found) {
  Difference d;
  size_t at = 0;
  for (const uint32_t id : model.model().program(program).outputs) {
    const TensorRecord& r = model.model().tensors()[id];
    const uint8_t *a = expected.data() + at, *b = found.data() + at;
    if (r.element == ElementType::kFloat32) {
      d.largest = std::max(d.largest, largest_difference<float>(a, b, r.bytes));
    } else if (r.element == ElementType::kFloat64) {
      d.largest = std::max(d.largest, largest_difference<double>(a, b, r.bytes));
    } else {
      for (uint64_t i = 0; i < r.bytes; ++i) d.bytes += a[i] != b[i];
    }
    at += size_t(r.bytes);
  }
  return d;
}

}  // namespace nacre::tools
