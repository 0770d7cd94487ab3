#include "tools/tuner/divergence.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace nacre::tools {
namespace {

// Infinities and NaN have all bits of the exponent set.
template <class Word>
bool finite(std::span<const std::byte> bytes, Word exponent) {
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, &bytes[at], sizeof word);
    if ((word & exponent) == exponent) return false;
  }
  return true;
}

bool finite(ElementType type, std::span<const std::byte> bytes) {
  switch (type) {
    case ElementType::kFloat64: return finite<uint64_t>(bytes, 0x7FF0'0000'0000'0000);
    case ElementType::kFloat32: return finite<uint32_t>(bytes, 0x7F80'0000);
    case ElementType::kFloat16: return finite<uint16_t>(bytes, 0x7C00);
    case ElementType::kBfloat16: return finite<uint16_t>(bytes, 0x7F80);
    default: return true;
  }
}

}  // namespace

std::string not_finite_in(const LoadedModel& loaded, uint32_t infer, std::span<const std::byte> state) {
  const Model& model = loaded.model();
  const std::span<const TensorRecord> tensors = model.tensors();
  std::vector<bool> counts(tensors.size());
  for (size_t id = 0; id < tensors.size(); ++id) counts[id] = (tensors[id].flags & kTrainable) != 0;
  const ProgramView view = model.program(infer);
  for (const StepRecord& step : model.steps().subspan(view.first_step, view.step_count)) {
    const uint32_t* operands = model.operands(step);
    for (uint32_t i = 0; i < step.operand_count; ++i)
      if (const uint32_t id = operands[i] & kOperandIdMask; id != kNoOperand) counts[id] = true;
  }
  for (size_t id = 0; id < tensors.size(); ++id) {
    const TensorRecord& r = tensors[id];
    if (!counts[id] || r.region != Region::kState || r.alias_of != kNoIndex) continue;
    if (!finite(r.element, state.subspan(size_t(r.offset), size_t(r.bytes)))) return loaded.tensor_name(uint32_t(id));
  }
  return "";
}

}  // namespace nacre::tools
