#include "tools/evaluate/decode.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/names.h"

namespace nacre::tools {
namespace {

// Calls f(T()) with a type that holds one element of `type` and converts to double. Callers unpack 4-bit types first.
template <class F>
auto with_element(ElementType type, F f) {
  switch (type) {
    case ElementType::kFloat32: return f(float());
    case ElementType::kFloat64: return f(double());
    case ElementType::kFloat16: return f(Float16());
    case ElementType::kBfloat16: return f(Bfloat16());
    case ElementType::kFloat8E4M3: return f(Float8E4M3());
    case ElementType::kFloat8E5M2: return f(Float8E5M2());
    case ElementType::kFloat8E4M3Fnuz: return f(Float8E4M3Fnuz());
    case ElementType::kFloat8E5M2Fnuz: return f(Float8E5M2Fnuz());
    case ElementType::kInt8:
    case ElementType::kInt4: return f(int8_t());
    case ElementType::kUint8:
    case ElementType::kBool:
    case ElementType::kUint4: return f(uint8_t());
    case ElementType::kInt16: return f(int16_t());
    case ElementType::kInt32: return f(int32_t());
    case ElementType::kUint32: return f(uint32_t());
    case ElementType::kInt64: return f(int64_t());
    default: throw Error(kUnsupported, "elements", fmt::format("{} has no real numbers of its own", name_of(type)));
  }
}

// Unpacks int4 or uint4, two elements in a byte; the element of the lower index lies in the low bits.
std::vector<uint8_t> unpacked(const StoredElements& elements) {
  size_t count = 1;
  for (const int64_t d : elements.dims) count *= size_t(d);
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    const int nibble = elements.bytes[i / 2] >> (i % 2 * 4) & 15;
    bytes[i] = uint8_t(elements.type == ElementType::kInt4 ? (nibble ^ 8) - 8 : nibble);
  }
  return bytes;
}

bool is_packed(ElementType type) { return type == ElementType::kInt4 || type == ElementType::kUint4; }

// Finds the channel of element i: scales are per tensor or per index of an axis.
struct Channels {
  size_t inner = 1, count = 1;

  explicit Channels(const StoredElements& e) {
    if (!e.scales) return;
    count = e.scales->scale.size();
    for (size_t axis = size_t(e.scales->axis) + 1; axis < e.dims.size(); ++axis) inner *= size_t(e.dims[axis]);
  }
  size_t operator()(size_t i) const { return count > 1 ? i / inner % count : 0; }
};

int32_t zero_of(const Scales& scales, size_t channel) {
  return scales.zero.empty() ? 0 : scales.zero[scales.zero.size() > 1 ? channel : 0];
}

// Calls f(value, channel) for every element.
template <class F>
void for_each(const StoredElements& e, F f) {
  const std::vector<uint8_t> wide = is_packed(e.type) ? unpacked(e) : std::vector<uint8_t>();
  const std::span<const uint8_t> bytes = is_packed(e.type) ? std::span(wide) : e.bytes;
  const Channels channel(e);
  with_element(e.type, [&]<class T>(T value) {
    for (size_t i = 0; i < bytes.size() / sizeof value; ++i) {
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      f(value, channel(i));
    }
  });
}

// Returns the lowest and the highest code of int4, uint4, int8, uint8 or int16.
std::pair<int, int> ends_of(ElementType type) {
  if (type == ElementType::kInt4) return {-8, 7};
  if (type == ElementType::kUint4) return {0, 15};
  if (type == ElementType::kInt8) return {-128, 127};
  if (type == ElementType::kUint8) return {0, 255};
  return {-32768, 32767};
}

bool has_ends(ElementType type) { return is_packed(type) || element_bits(type) == 8 || type == ElementType::kInt16; }

bool is_float8(ElementType type) { return type >= ElementType::kFloat8E4M3 && type <= ElementType::kFloat8E5M2Fnuz; }

const ReportStep* maker_of(const ProgramReport& report, uint32_t tensor) {
  for (const ReportStep& step : report.steps())
    for (const ReportOperand& operand : step.operands)
      if (operand.role != Role::kIn && operand.tensor == tensor) return &step;
  return nullptr;
}

bool is_reciprocal(const ReportStep& step) {
  for (const ReportAttribute& a : step.attributes)
    if (std::string_view(a.name) == "form") return std::get<int32_t>(a.values[0]) == int32_t(ScaleForm::kReciprocal);
  return false;
}

// Returns the tensor that holds the scale of the step's result (see meaning_of), or kNoIndex.
uint32_t scale_operand(const ReportStep& step) {
  uint32_t last = kNoIndex;
  for (const ReportOperand& operand : step.operands) {
    if (step.op == Op::kQuantize && operand.slot == "scale") return operand.tensor;
    if (operand.role == Role::kIn) last = operand.tensor;
  }
  const OpRule* rule = find_rule(step.op);
  return rule != nullptr && rule->numerics == Numerics::kMatmul ? last : kNoIndex;
}

template <class T>
bool at_end(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(value) >= std::numeric_limits<T>::max();
  } else {
    const uint32_t magnitude = value.bits & T::kAllOnes;
    return magnitude == T::kMax || (T::kKind == Special::kIeee && magnitude == T::kInfinity);
  }
}

}  // namespace

std::vector<double> decode(const StoredElements& elements) {
  std::vector<double> reals;
  for_each(elements, [&](auto value, size_t channel) {
    const auto plain = static_cast<double>(value);
    if (!elements.scales) return reals.push_back(plain);
    const Scales& s = *elements.scales;
    reals.push_back(double(float(double(s.scale[channel]) * (plain - zero_of(s, channel)))));
  });
  return reals;
}

uint64_t saturated(const StoredElements& elements) {
  uint64_t count = 0;
  for_each(elements, [&]<class T>(T value, size_t channel) {
    if constexpr (std::is_integral_v<T>) {
      if (!elements.scales || !has_ends(elements.type)) return;
      const auto [low, high] = ends_of(elements.type);
      const auto code = int64_t{value};
      count += (code == low || code == high) && code != zero_of(*elements.scales, channel) ? 1 : 0;
    } else {
      count += at_end(value) ? 1 : 0;
    }
  });
  return count;
}

std::optional<Scales> meaning_of(const ProgramReport& report, uint32_t tensor) {
  const ElementType type = report.tensor(tensor).element;
  if (type == ElementType::kFloat32) return std::nullopt;
  if (std::optional<Scales> scales = report.loaded().scales(tensor); scales || !is_float8(type)) return scales;
  const ReportStep* maker = maker_of(report, tensor);
  const uint32_t operand = maker == nullptr ? kNoIndex : scale_operand(*maker);
  if (operand == kNoIndex) return std::nullopt;
  const TensorRecord& r = report.tensor(operand);
  const bool one_float = r.element == ElementType::kFloat32 && r.bytes == sizeof(float);
  if (r.region != Region::kWeights || !one_float) return std::nullopt;
  float scale;
  std::memcpy(&scale, report.loaded().model().weights(operand), sizeof scale);
  return Scales{{is_reciprocal(*maker) ? 1 / scale : scale}, {0}, 0};
}

}  // namespace nacre::tools
