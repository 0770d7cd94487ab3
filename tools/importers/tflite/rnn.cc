// Converts UNIDIRECTIONAL_SEQUENCE_RNN step by step: a dense node gives x_t for all steps t, then for each step
//
//   h_t = f(x_t + R h_t-1),   h_-1 is what the run before left in the variable
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

constexpr int64_t kMostRnnSteps = 1024;  // each step of time becomes five nodes, or six with tanh

class Rnn {
 public:
  Rnn(Importer& importer, Operation& op, Activation activation)
      : importer_(importer), op_(op), activation_(activation) {}

  // Makes y [batch, time, width] of x [batch, time, in].
  void run(ValueId x, ValueId y) {
    const ValueId w = matmul_weights(importer_, op_, x, 2), r = importer_.input(op_, kRecurrent);
    if (importer_.value(x).quantizer || importer_.value(w).quantizer || !importer_.value(r).constant() ||
        importer_.value(r).stored != ElementType::kFloat32)
      importer_.unsupported(op_, "an RNN in other numbers than float32");
    Node product{.op = Op::kDense, .name = "", .words = {}, .inputs = {x, w}, .outputs = {}};
    product.inputs.push_back(matmul_bias(importer_, op_, kRnnBias, x, w));
    const ValueId all = append(std::move(product), x, "/product");
    const std::vector<int64_t> dims = importer_.value(all).dims;
    const ValueId s = importer_.variables().state(op_, kHidden, {dims[0], dims[2]}, false);
    ValueId h = append({.op = Op::kCopy, .name = "", .words = {}, .inputs = {s}, .outputs = {}}, x, "/before");
    std::vector<ValueId> steps;
    for (int t = 0; t < int(dims[1]); ++t) steps.push_back(row(h = step(all, t, h, r), dims));
    importer_.variables().store(h, s);
    join(steps, y);
  }

 private:
  enum Input { kRecurrent = 2, kRnnBias = 3, kHidden = 4 };

  ValueId append(Node node, ValueId like, const std::string& suffix, ValueId y = kNone) {
    if (y == kNone) y = importer_.between(like, suffix);
    node.outputs = {y};
    importer_.emit(op_, std::move(node));
    return y;
  }

  ValueId step(ValueId all, int t, ValueId h, ValueId r) {
    const std::vector<int64_t> dims = importer_.value(all).dims;
    const ValueId x = cut_axis(importer_, op_, all, 1, {t, 1}, "/step"), flat = importer_.between(all, "/row");
    importer_.emit_reshape(op_, x, {dims[0], dims[2]}, flat);
    const ValueId sum =
        append({.op = Op::kDense, .name = "", .words = {}, .inputs = {h, r}, .outputs = {}}, all, "/recurrent");
    Node add{.op = Op::kAdd, .name = "", .words = {}, .inputs = {flat, sum}, .outputs = {}};
    const ValueId y = importer_.between(all, "/h");
    importer_.emit_activated(op_, std::move(add), activation_, y);
    return y;
  }

  ValueId row(ValueId h, const std::vector<int64_t>& dims) {
    const ValueId y = importer_.between(h, "/of_time");
    importer_.emit_reshape(op_, h, {dims[0], 1, dims[2]}, y);
    return y;
  }

  void join(std::vector<ValueId> parts, ValueId y) {
    parts = in_groups(importer_, op_, std::move(parts), 1, y);
    if (parts.size() == 1) importer_.emit_reshape(op_, parts[0], importer_.value(parts[0]).dims, y);
    else append(concat(parts), y, "", y);
  }

  static Node concat(const std::vector<ValueId>& parts) {
    Node node{.op = Op::kConcat, .name = "", .words = {}, .inputs = parts, .outputs = {}};
    set_integer(node, "axis", 1);
    return node;
  }

  Importer& importer_;
  Operation& op_;
  const Activation activation_;
};

void convert_rnn(Importer& importer, Operation& op) {
  const auto& options = importer.options<SequenceRNNOptions>(op);
  const ValueId x = importer.real_input(op, 0), y = importer.output(op);
  if (importer.value(x).dims.size() != 3) importer.bad(op, "its input has not 3 axes");
  if (options.time_major()) importer.unsupported(op, "an RNN whose first axis is time");
  if (importer.value(x).dims[1] > kMostRnnSteps)
    importer.unsupported(op, "an RNN of " + std::to_string(importer.value(x).dims[1]) + " steps");
  Rnn(importer, op, options.activation()).run(x, y);
}

}  // namespace

std::span<const Converter> rnn_converters() {
  static constexpr Converter kRows[] = {{BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN, &convert_rnn}};
  return kRows;
}

}  // namespace nacre::tools::tflite
