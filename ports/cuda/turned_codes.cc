#include "ports/cuda/turned_codes.h"

#include <algorithm>
#include <optional>

#include "engine/ops/fake_float8.h"

namespace nacre::cuda {
namespace {

bool is_float8(ElementType element) {
  return element == ElementType::kFloat8E4M3 || element == ElementType::kFloat8E5M2;
}

const StepOperand& operand(const RecordedStep& step, int i) {
  return reinterpret_cast<const StepOperand*>(step.image + 1)[i];
}

bool overlap(const Touched& touched, const std::byte* at, size_t bytes) {
  return touched.first < at + bytes && at < touched.end;
}
bool touches(const RecordedStep& step, const std::byte* at, size_t bytes, bool only_writes) {
  return std::ranges::any_of(step.touched,
                             [&](const Touched& t) { return (t.writes || !only_writes) && overlap(t, at, bytes); });
}

// Returns whether a step makes codes and their amax with a kernel that can also transpose the codes.
bool quantizes(const RecordedStep& step) {
  return step.entry != nullptr && step.entry->op == Op::kFakeFloat8 && step.image->guard == nullptr &&
         is_float8(operand(step, FakeFloat8::kAmax + 1).record.element);
}

// Returns the step before `reader` that made all bytes of its operand and no others; none if that step does not
// quantize.
std::optional<size_t> maker_of(std::span<const RecordedStep> steps, size_t reader, const void* data) {
  const auto* const at = static_cast<const std::byte*>(data);
  for (size_t i = reader; i-- > 0;) {
    if (!touches(steps[i], at, 1, true)) continue;
    const bool made = quantizes(steps[i]) && operand(steps[i], FakeFloat8::kAmax + 1).data == data;
    return made ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

TurnedCodes codes_of(const RecordedStep& step, size_t index) {
  const StepOperand& y = operand(step, FakeFloat8::kAmax + 1);
  const Tensor tensor = {y.data, &y.record};
  const Shape shape = Operands{&tensor, 1, step.rows}[0];
  return {index, y.data, int(shape.product(0, shape.rank - 1)), int(shape[shape.rank - 1])};
}

// Returns whether a step makes y = x^T from a matrix of codes.
bool turns(const RecordedStep& step) {
  const TensorRecord& x = operand(step, 0).record;
  return step.entry->op == Op::kTranspose && step.image->guard == nullptr && is_float8(x.element) && x.rank == 2 &&
         step.image->words[0] == 1 && (x.flags & kBatched) == 0;
}

// Returns whether no step in between reads or writes the bytes of y, nor the quantizing step itself.
bool may_write_early(std::span<const RecordedStep> steps, size_t first, size_t reader) {
  const StepOperand& y = operand(steps[reader], 1);
  return std::none_of(steps.begin() + int64_t(first), steps.begin() + int64_t(reader), [&](const RecordedStep& step) {
    return touches(step, static_cast<const std::byte*>(y.data), size_t(y.record.bytes), false);
  });
}

}  // namespace

std::vector<TurnedCodes> turned_codes(std::span<const RecordedStep> steps, bool has_products) {
  std::vector<TurnedCodes> made;
  const auto find = [&](size_t step) { return std::ranges::find(made, step, &TurnedCodes::step); };
  for (size_t reader = 0; reader < steps.size(); ++reader) {
    const RecordedStep& step = steps[reader];
    if (step.entry == nullptr) continue;
    if (turns(step)) {
      const auto maker = maker_of(steps, reader, operand(step, 0).data);
      if (!maker || find(*maker) != made.end() || !may_write_early(steps, *maker, reader)) continue;
      made.push_back(codes_of(steps[*maker], *maker));
      made.back().transpose = reader;
      made.back().to = static_cast<std::byte*>(operand(step, 1).data);
      continue;
    }
    ProductStep product;
    if (!has_products || !product_of(*step.entry, *step.image, step.rows, &product)) continue;
    for (const CopyOfRows* copy : {&product.left, &product.right}) {
      if (copy->to == nullptr || !copy->turned) continue;
      const auto maker = maker_of(steps, reader, copy->from);
      if (!maker) continue;
      if (const TurnedCodes codes = codes_of(steps[*maker], *maker); !is_copy_of(codes, *copy)) continue;
      else if (find(*maker) == made.end()) made.push_back(codes);
      if (const auto found = find(*maker); found->transpose == TurnedCodes::kNone) found->products.push_back(reader);
    }
  }
  return made;
}

bool is_copy_of(const TurnedCodes& codes, const CopyOfRows& copy) {
  return copy.turned && copy.rows == codes.columns && copy.columns == codes.rows && copy.to_rows == codes.columns &&
         copy.to_columns == codes.rows;
}

}  // namespace nacre::cuda
