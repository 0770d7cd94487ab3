// Imports Cast, CastLike and BitCast.
//
// Reals of the source are float32 values in the graph, whatever float type the source gives them (Operand::kept). A
// cast node is added if the type changes. Constants are cast at import.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "engine/numeric/small_float.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns the integers cut to the low bits of T, as a C cast does.
template <class T>
std::vector<int64_t> wrapped(std::vector<int64_t> numbers) {
  for (int64_t& number : numbers) number = int64_t(T(number));
  return numbers;
}

std::vector<int64_t> wrapped(std::vector<int64_t> numbers, ElementType type) {
  switch (type) {
    case ElementType::kInt8: return wrapped<int8_t>(std::move(numbers));
    case ElementType::kUint8: return wrapped<uint8_t>(std::move(numbers));
    case ElementType::kInt16: return wrapped<int16_t>(std::move(numbers));
    case ElementType::kInt32: return wrapped<int32_t>(std::move(numbers));
    case ElementType::kUint32: return wrapped<uint32_t>(std::move(numbers));
    default: return numbers;
  }
}

template <class Float8>
Value saturated(const Value& x, ElementType type) {
  std::vector<float> numbers = reals(x);
  for (float& number : numbers) number = float(Float8::saturated(number));
  return make_constant(x.name, type, x.dims, numbers);
}

// Casts a constant. Numbers beyond a float8 become its largest number, or with saturate=0 its infinity or NaN (ONNX's
// table of Cast).
Value cast_constant(const Value& x, ElementType type, bool saturates) {
  if (saturates && type == ElementType::kFloat8E4M3) return saturated<Float8E4M3>(x, type);
  if (saturates && type == ElementType::kFloat8E5M2) return saturated<Float8E5M2>(x, type);
  const bool integer = is_integer(x.stored) && !x.quantizer;
  if (integer && is_integer(type)) return make_constant(x.name, type, x.dims, wrapped(integers(x), type));
  return cast(x, type);
}

void give_reals(Import& import, Value numbers, ElementType kept) {
  auto y = std::make_shared<Operand>();
  y->kept = kept;
  y->dims = numbers.dims;
  numbers.name = import.output_name();
  if (kept == ElementType::kFloat64) y->exact = std::make_shared<const Value>(numbers);
  y->constant = std::make_shared<const Value>(as_float32(std::move(numbers)));
  import.give(0, std::move(y));
}

void cast_step(Import& import, const OperandPtr& x, ElementType type) {
  Node node = import.step(Op::kCast);
  const bool last = x->prefers_channels_last();
  node.inputs = {last ? import.channels_last(x) : import.plain(x)};
  const ValueId id = import.append(std::move(node), import.output_name(), type);
  auto y = std::make_shared<Operand>();
  y->type = is_other_real(type) ? ElementType::kFloat32 : type;
  if (is_other_real(type)) y->kept = type;
  y->dims = x->dims;
  (last ? y->channels_last : y->plain) = id;
  import.give(0, std::move(y));
}

void cast_to(Import& import, const Source& source, ElementType type) {
  const OperandPtr& x = source.operand(0);
  const bool real = type == ElementType::kFloat32 || is_other_real(type);
  const ElementType kept = is_other_real(type) && !import.options().train ? type : ElementType::kNone;
  if (real && x->type == ElementType::kFloat32 && x->kept == kept) return import.give(0, x);
  if (!real && x->type == type) return import.give(0, x);
  if (cast_dynamic(import, source, real ? ElementType::kFloat32 : type)) return;
  if (type == ElementType::kNone) source.refuse("casts to a type that is not supported");
  if (real && import.options().train) type = ElementType::kFloat32;
  if (x->constant) {
    spend_elements(import, *x->constant);
    Value made = cast_constant(x->numbers(), type, source.integer("saturate", 1) != 0);
    return real ? give_reals(import, std::move(made), kept) : import.give_constant(0, std::move(made));
  }
  if (!at_run_time(x->type) || !(real || at_run_time(type)))
    source.refuse(fmt::format("casts {} to {} at run time, and no value at run time is {}", name_of(x->type),
                              name_of(type), name_of(at_run_time(x->type) ? type : x->type)),
                  is_float8(type) || is_float8(x->type) ? "export the network without the casts, and convert it with " +
                                                              option("policy", "float8/current_from_float32")
                                                        : "export the network without the casts");
  for (const ElementType narrow : {x->type, type}) {
    const bool rare = narrow == ElementType::kInt16 || narrow == ElementType::kUint32;
    const ElementType wide = wider_type(narrow);
    if (rare && x->type != wide && type != wide) return cast_by_way_of(import, source, wide, type);
  }
  cast_step(import, x, type);
}

void cast_operator(Import& import, const Source& source) {
  const auto to = int(std::clamp<int64_t>(source.integer("to", 0), 0, 1000));
  cast_to(import, source, to == ::onnx::TensorProto::UINT16 ? ElementType::kNone : element_type(to));
}

void cast_like(Import& import, const Source& source) {
  const Operand& like = *source.operand(1);
  cast_to(import, source, like.kept != ElementType::kNone ? like.kept : like.type);
}

// Imports BitCast, which reads the bits of x as another type of that size. At run time this works for integers alone,
// because a cast between them keeps their bits.
void bit_cast(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const auto to = int(std::clamp<int64_t>(source.integer("to", 0), 0, 1000));
  const ElementType type = to == ::onnx::TensorProto::UINT16 ? ElementType::kNone : element_type(to);
  const ElementType from = x->kept != ElementType::kNone ? x->kept : x->type;
  if (element_bits(type) == 0) source.refuse("casts to a type that is not supported");
  if (element_bits(type) != element_bits(from))  // uint16 is stored wider
    source.refuse("casts to a type of another size");
  if (x->constant && x->constant->stored == from && !x->constant->quantizer) {
    Value made = *x->constant;
    made.type = made.stored = type;
    return import.give_constant(0, std::move(made));
  }
  if (!is_integer(from) || !is_integer(type)) source.refuse("reads the bits of real numbers that are computed");
  cast_to(import, source, type);
}

constexpr OperatorImporter kCastImporters[] = {{"Cast", cast_operator}, {"CastLike", cast_like}, {"BitCast", bit_cast}};

}  // namespace

std::span<const OperatorImporter> cast_importers() { return kCastImporters; }

}  // namespace nacre::tools::onnx_import
