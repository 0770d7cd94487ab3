// apply_policy: the ops that LiteRT computes on uint8 codes in another way than on int8 codes. c is the uint8 code.
// The program has the int8 code c - 128.
#include "tools/passes/policy/apply_policy.h"

#include <algorithm>
#include <cmath>

namespace nacre::tools {
namespace {

constexpr int kMiddle = 128;

ValueId uint8_step(PolicyPass& pass, const Node& near, Op op, ValueId x, ValueId y) {
  const std::string name = pass.value(y).name + "/codes";
  const ValueId scale = pass.graph().constant(name + "/scale", {1}, std::vector<float>{1}),
                zero = pass.graph().constant(name + "/zero", {1}, std::vector<int32_t>{-kMiddle});
  Node step = make_step(op, near, name, {x, scale, zero}, {y});
  if (op == Op::kQuantize) step.rounding = Rounding::kHalfAway;
  pass.emit(std::move(step));
  return y;
}

// Adds a step y = x + y_zero - x_zero, which changes the type of the codes.
void shift_codes(PolicyPass& pass, const Node& near, ValueId x, ValueId y, bool widens) {
  Node step = make_step(Op::kRequantize, near, pass.value(y).name + "/shift", {x}, {y});
  step.inputs.push_back(pass.requant(step, {1}));
  set_integer(step, "x_zero", widens ? -kMiddle : 0);
  set_integer(step, "y_zero", widens ? 0 : -kMiddle);
  pass.emit(std::move(step));
}

}  // namespace

// reference_ops.h, AveragePool: (sum c + n / 2) / n, rounded half up. It runs in int16. There c is not negative, so
// rounding half away from zero is the same.
void write_uint8_average(PolicyPass& pass, Node node) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  Codes wide = pass.codes(y);
  wide.zero += kMiddle;
  wide.type = ElementType::kInt16;
  const auto made = [&](ValueId like) {
    const ValueId id = pass.like(like, "/wide", ElementType::kInt16);
    pass.value(id).quantizer = Quantizer{ElementType::kInt16, {wide.scale}, {0}, 0};
    return id;
  };
  node.inputs[0] = made(x);
  node.outputs[0] = made(y);
  shift_codes(pass, node, x, node.inputs[0], true);
  pass.set_clamp_codes(node, wide);
  const Node near = node;
  pass.emit(std::move(node));
  shift_codes(pass, near, near.outputs[0], y, false);
}

// reference/resize_bilinear.h, ResizeBilinear<uint8_t>: interpolates c in float32, adds 0.5 and truncates. Its four
// products are summed in another order. If weights are no multiples of a power of 1/2, a tie may round to the other
// side.
void write_uint8_resize(PolicyPass& pass, Node node) {
  const ValueId y = node.outputs[0];
  const Node near = node;
  node.inputs[0] = uint8_step(pass, near, Op::kDequantize, node.inputs[0],
                              pass.like(node.inputs[0], "/real_codes", ElementType::kFloat32));
  node.outputs[0] = pass.like(y, "/real_codes", ElementType::kFloat32);
  const ValueId real = node.outputs[0];
  pass.emit(std::move(node));
  uint8_step(pass, near, Op::kQuantize, real, y);
}

// reference_ops.h, ConcatenationWithScaling: round(c s_x / s_y - zero_x s_x / s_y) + zero_y in float32, as a table.
ValueId uint8_with_codes(PolicyPass& pass, const Node& reader, ValueId x, const Quantizer& quantizer) {
  const Codes from = pass.codes(x);
  const float inverse = 1 / quantizer.scale[0], scale = from.scale * inverse,
              bias = -float(from.zero + kMiddle) * scale;
  std::vector<int8_t> table;
  for (int c = 0; c < 256; ++c) {
    const float moved = std::round(float(c) * scale + bias) + float(quantizer.zero[0]);
    table.push_back(int8_t(std::clamp(moved, -128.0f, 127.0f)));
  }
  const ValueId y = pass.like(x, "/with_codes", ElementType::kInt8);
  pass.value(y).quantizer = quantizer;
  const ValueId data = pass.graph().constant(pass.value(y).name + "/table", {256}, table);
  pass.emit(make_step(Op::kLookup, reader, pass.value(y).name, {x, data}, {y}));
  return y;
}

}  // namespace nacre::tools
