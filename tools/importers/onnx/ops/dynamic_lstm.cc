// Imports DynamicQuantizeLSTM, which ONNX Runtime's quantize_dynamic makes of an LSTM. Its weights are codes with
// turned axes.
//
//   codes [directions, in, 4 h], scale and zero [directions] or [directions, 4 h]
//   W = transpose((codes - zero) scale) [directions, 4 h, in], R from its codes alike
//
// W and R become the weights of ONNX's LSTM. ONNX Runtime also rounds x and the hidden state to 8 bits in every step.
// Here they stay float32, unless a policy says otherwise.
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

Term column_of(Formula& f, const Source& source, int input, const Formula::Ints& codes) {
  const Formula::Ints& dims = source.operand(input)->dims;
  const bool each = dims == Formula::Ints{codes[0], codes[2]};
  if (!each && dims != Formula::Ints{codes[0]}) source.malformed("a scale or zero point does not fit its weights");
  return f.reshape(f.to_real(f.input(input)), {codes[0], 1, each ? codes[2] : 1});
}

Term weights_of(Formula& f, const Source& source, int input, int scale, int zero) {
  source.constant(input, "its weights");
  const Formula::Ints& codes = source.operand(input)->dims;
  if (codes.size() != 3) source.malformed("its weights do not have three axes");
  Term real = f.to_real(f.input(input));
  if (source.given(zero)) real = f("Sub", {real, column_of(f, source, zero, codes)});
  return f.transpose(f("Mul", {real, column_of(f, source, scale, codes)}), {0, 2, 1});
}

void dynamic_quantize_lstm(Import& import, const Source& source) {
  enum { kX, kW, kR, kB, kPeepholes = 7, kWScale, kWZero, kRScale, kRZero };
  Formula f(import, source);
  std::vector<Term> inputs = {f.input(kX), weights_of(f, source, kW, kWScale, kWZero),
                              weights_of(f, source, kR, kRScale, kRZero)};
  for (int input = kB; input <= kPeepholes; ++input) inputs.push_back(source.given(input) ? f.input(input) : "");
  for (const Term& y : f.several_like_node("LSTM", inputs, 3)) f.give(y);
  const size_t before = import.graph().nodes.size();
  f.run();
  for (size_t i = before; i < import.graph().nodes.size(); ++i)
    for (const ValueId id : import.graph().nodes[i].inputs)
      if (id != kNone && import.value(id).constant() && import.value(id).dims.size() > 1)
        import.graph().values[size_t(id)].source_type = ElementType::kInt8;
  import.log().add("its weights are codes; x and h are not rounded to 8 bits");
}

constexpr OperatorImporter kImporters[] = {{"DynamicQuantizeLSTM", dynamic_quantize_lstm, kMicrosoft}};

}  // namespace

std::span<const OperatorImporter> dynamic_lstm_importers() { return kImporters; }

}  // namespace nacre::tools::onnx_import
