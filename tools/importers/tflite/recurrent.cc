// Converts UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM and SVDF: a dense node over all steps, then the
// loop over time, whose variables become values of the stream region (memory that lives between runs). In an integer
// file they keep their quantizers, from which apply_policy makes the integer form.
//
// Operands of an LSTM come in fours, for its input, forget, cell and output gate. This is the graph's order too.
#include <algorithm>
#include <cmath>
#include <string>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

constexpr int64_t kGates = 4;

// The index of the first operand of each kind, for one direction.
struct Slots {
  size_t input, recurrent, peephole, bias, projection, h, c, normalization;
};
constexpr size_t kNoSlot = 999;
constexpr Slots kOnly = {1, 5, 9, 12, 16, 18, 19, 20};
constexpr Slots kForward = {1, 5, 9, 12, 16, 35, 36, kNoSlot};
constexpr Slots kBackward = {18, 22, 26, 29, 33, 37, 38, kNoSlot};

struct LstmOptions {
  Activation activation;
  float cell_clip;
  bool time_major;
};

class Lstm {
 public:
  Lstm(Importer& importer, Operation& op, LstmOptions options) : importer_(importer), op_(op), options_(options) {
    x_ = importer.real_input(op, 0);
    if (importer.value(x_).dims.size() != 3) importer.bad(op, "its input has not 3 axes");
    if (options.activation != Activation::TANH) importer.unsupported(op, "an LSTM with another activation than tanh");
    if (!(options.cell_clip >= 0 && std::isfinite(options.cell_clip)))
      importer.bad(op, "clips its cell at " + std::to_string(options.cell_clip));
    if (options.time_major) x_ = swapped(x_, kNone);
  }

  // Makes y [batch, time, width] of one direction, in `y`, or in a new value if that is kNone.
  ValueId direction(const Slots& slots, bool backward, ValueId y) {
    refuse_variants(slots);
    const int64_t width = importer_.value(importer_.input(op_, slots.recurrent + 3)).dims[0];
    const std::string name = importer_.value(importer_.output(op_)).name + (backward ? "/backward" : "");
    const bool coded = importer_.value(x_).quantizer.has_value();
    ValueId w = joined(slots.input, 2, name + "/input_weights");
    const ValueId bias = joined(slots.bias, 1, name + "/bias"), r = joined(slots.recurrent, 2, name + "/weights");
    check_weights(w, bias, r, width);
    set_policy(w, r);
    const ValueId x = backward ? turned(x_, kNone) : x_, gates = plain("/gates");
    importer_.emit(op_, {.op = Op::kDense, .name = "", .words = {}, .inputs = {x, w, bias}, .outputs = {gates}});
    const int64_t batch = importer_.value(x_).dims[0];
    const ValueId h = importer_.variables().state(op_, slots.h, {batch, width}, coded),
                  c = importer_.variables().state(op_, slots.c, {batch, width}, coded);
    if (coded) check_codes(h, c);
    const bool last = y != kNone && !options_.time_major && !backward;
    const ValueId made = last ? y : like_output(backward ? "/turned" : "/batch_first");
    Node loop{.op = Op::kStreamLstm, .name = "", .words = {}, .inputs = {gates, r, kNone, h, c}, .outputs = {made}};
    set_real(loop, "cell_clip", options_.cell_clip);
    importer_.emit(op_, std::move(loop));
    ValueId z = made;
    if (backward) z = turned(z, options_.time_major ? kNone : y);
    return options_.time_major ? swapped(z, y) : z;
  }

 private:
  void refuse_variants(const Slots& slots) const {
    const auto given = [&](size_t first, size_t count) {
      bool any = false;
      for (size_t i = first; i < first + count; ++i) any = any || op_.has_input(i);
      return any;
    };
    if (!given(slots.input, 1) || !given(slots.recurrent, 1))
      importer_.unsupported(op_, "an LSTM whose input gate is coupled to its forget gate");
    if (given(slots.peephole, 3)) importer_.unsupported(op_, "an LSTM with peepholes");
    if (given(slots.projection, 2)) importer_.unsupported(op_, "an LSTM with a projection");
    if (slots.normalization != kNoSlot && given(slots.normalization, 4))
      importer_.unsupported(op_, "an LSTM with layer normalization");
  }

  void check_weights(ValueId w, ValueId bias, ValueId r, int64_t width) const {
    const int64_t in = importer_.value(x_).dims[2];
    const auto check = [&](ValueId id, const std::vector<int64_t>& dims) {
      const Value& v = importer_.value(id);
      if (v.dims != dims) importer_.bad(op_, v.name + " of its gates has shape " + dims_text(v.dims));
    };
    check(w, {kGates * width, in});
    check(bias, {kGates * width});
    check(r, {kGates * width, width});
  }

  // Makes a float32 value without dims or quantizer.
  ValueId plain(const char* suffix) {
    const ValueId id = importer_.between(x_, suffix);
    importer_.value(id).quantizer.reset();
    return id;
  }
  ValueId like_output(const char* suffix) { return importer_.between(importer_.output(op_), suffix); }

  // Joins the operands of the four gates along axis 0. Weights keep their codes. A bias has codes in units of s_x s_w,
  // the scales of x and of the input weights, whatever its own quantization is.
  ValueId joined(size_t first, size_t rank, const std::string& name) {
    Value all;
    std::vector<uint8_t> bytes;
    const std::optional<Quantizer> x = importer_.value(x_).quantizer;
    const bool bias = rank == 1;
    for (size_t k = 0; k < kGates; ++k) {
      const Value& part = importer_.value(importer_.input(op_, first + k));
      if (!part.constant()) importer_.unsupported(op_, "weights that are computed at run time");
      if (k == 0) all = part;
      if (part.dims.size() != rank || part.dims != all.dims || part.stored != all.stored)
        importer_.bad(op_, part.name + " does not fit the weights of the other gates");
      check_stored(part, bias, x.has_value());
      if (k == 0) all.quantizer.reset();
      add_scales(all, part, bias ? importer_.value(importer_.input(op_, input_slot_ + k)) : part,
                 bias ? x : std::nullopt);
      importer_.graph().budget.take(part.data->size(), op_.name, "the weights of all gates", "use a smaller layer");
      bytes.insert(bytes.end(), part.data->begin(), part.data->end());
    }
    if (!bias) input_slot_ = first;
    all.dims[0] *= kGates;
    all.type = ElementType::kFloat32;
    all.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    all.name = name;
    return importer_.graph().add(std::move(all));
  }

  void check_stored(const Value& part, bool bias, bool coded) const {
    if (part.stored == ElementType::kFloat32 && !coded) return;
    const bool fits = bias ? coded && part.stored == ElementType::kInt32
                           : part.stored == ElementType::kInt8 && part.quantizer && part.quantizer->scale.size() == 1 &&
                                 part.quantizer->zero[0] == 0;
    if (!fits) importer_.unsupported(op_, part.name + " is neither float32 nor coded as LiteRT codes an LSTM");
  }

  // Adds a scale for every row of a gate: the weights' own, or s_x s_w for a bias.
  static void add_scales(Value& all, const Value& part, const Value& w, const std::optional<Quantizer>& x) {
    if (!w.quantizer || (part.stored != ElementType::kInt8 && part.stored != ElementType::kInt32)) return;
    if (!all.quantizer) all.quantizer = Quantizer{.codes = part.stored, .scale = {}, .zero = {}, .axis = 0};
    const float scale = w.quantizer->scale[0] * (x ? x->scale[0] : 1.0f);
    all.quantizer->scale.insert(all.quantizer->scale.end(), size_t(part.dims[0]), scale);
    all.quantizer->zero.insert(all.quantizer->zero.end(), size_t(part.dims[0]), 0);
  }

  void set_policy(ValueId w, ValueId r) {
    const Value &x = importer_.value(x_), &input = importer_.value(w), &recurrent = importer_.value(r);
    if (input.quantizer.has_value() != recurrent.quantizer.has_value())
      importer_.unsupported(op_, "an LSTM of which only some weights are quantized");
    if (x.quantizer) return set_matmul_policy(importer_, op_, x_, w, false);
    if (input.quantizer) importer_.policy(op_).quantization = Quantization::kInt8Weights;
  }

  // Checks the codes of LiteRT's integer loop: h has the scale of y, and the scale of c is a power of two.
  void check_codes(ValueId h, ValueId c) const {
    const std::optional<Quantizer>&y = importer_.value(importer_.output(op_)).quantizer,
          &of_h = importer_.value(h).quantizer, &of_c = importer_.value(c).quantizer;
    int exponent = 0;
    const bool power = std::frexp(of_c->scale[0], &exponent) == 0.5f && exponent >= -14 && exponent <= -8;
    const bool same = y && of_h->codes == y->codes && of_h->scale == y->scale && of_h->zero == y->zero;
    if (!same || of_c->codes != ElementType::kInt16 || !power)
      importer_.unsupported(op_, "an integer LSTM whose variables are not coded as LiteRT codes them");
  }

  ValueId moved(Node node, ValueId x, ValueId y, const char* suffix) {
    if (y == kNone) y = importer_.between(x, suffix);
    node.inputs = {x};
    node.outputs = {y};
    importer_.emit(op_, std::move(node));
    return y;
  }
  // Swaps [time, batch, ..] and [batch, time, ..].
  ValueId swapped(ValueId x, ValueId y) {
    Node node{.op = Op::kTranspose, .name = "", .words = {}, .inputs = {}, .outputs = {}};
    for (int i = 0; i < 3; ++i) set_integer(node, "perm", i == 2 ? 2 : 1 - i, i);
    return moved(std::move(node), x, y, "/swapped");
  }
  ValueId turned(ValueId x, ValueId y) {
    const int64_t time = importer_.value(x).dims[1];
    return cut_axis(importer_, op_, x, 1, {time - 1, time, -1}, "/turned", y);
  }

  Importer& importer_;
  Operation& op_;
  const LstmOptions options_;
  ValueId x_ = kNone;
  size_t input_slot_ = 0;  // first operand of the weights joined last; the bias's scales are theirs
};

void convert_lstm(Importer& importer, Operation& op) {
  const auto& options = importer.options<UnidirectionalSequenceLSTMOptions>(op);
  if (options.diagonal_recurrent_tensors()) importer.unsupported(op, "an LSTM with diagonal recurrent weights");
  Lstm lstm(importer, op, {options.activation(), options.cell_clip(), options.time_major()});
  lstm.direction(kOnly, false, importer.output(op));
}

void convert_bidirectional_lstm(Importer& importer, Operation& op) {
  const auto& options = importer.options<BidirectionalSequenceLSTMOptions>(op);
  if (op.has_input(39)) importer.unsupported(op, "an LSTM with an auxiliary input");
  if (importer.value(importer.real_input(op, 0)).quantizer) importer.unsupported(op, "an integer bidirectional LSTM");
  Lstm lstm(importer, op, {options.activation(), options.cell_clip(), options.time_major()});
  if (!options.merge_outputs()) {
    lstm.direction(kForward, false, importer.output(op, 0));
    lstm.direction(kBackward, true, importer.output(op, 1));
    return;
  }
  Node concat{.op = Op::kConcat, .name = "", .words = {}, .inputs = {}, .outputs = {importer.output(op)}};
  concat.inputs = {lstm.direction(kForward, false, kNone), lstm.direction(kBackward, true, kNone)};
  set_integer(concat, "axis", 2);
  importer.emit(op, std::move(concat));
}

enum SvdfInput { kSvdfX, kFeatures, kTimeWeights, kSvdfBias, kPast };

// Returns the bias of SVDF. In an integer layer its scale is that of the state times that of the time weights.
ValueId svdf_bias(Importer& importer, const Operation& op, ValueId s, const Value& time) {
  const ValueId id = importer.input(op, kSvdfBias);
  Value bias = importer.value(id);
  const std::optional<Quantizer>& state = importer.value(s).quantizer;
  if (!bias.constant()) importer.unsupported(op, "a bias that is computed at run time");
  if (bias.stored != (state ? ElementType::kInt32 : ElementType::kFloat32))
    importer.unsupported(op, "a bias of another type than its layer takes");
  if (!state) return id;
  bias.quantizer = Quantizer{
      .codes = ElementType::kInt32, .scale = {state->scale[0] * time.quantizer->scale[0]}, .zero = {0}, .axis = 0};
  bias.type = ElementType::kFloat32;
  return importer.graph().add(std::move(bias));
}

ValueId time_weights(Importer& importer, const Operation& op, bool coded) {
  Value w = importer.value(importer.input(op, kTimeWeights));
  if (!w.constant()) importer.unsupported(op, "weights that are computed at run time");
  if (coded) w.quantizer = importer.tensors().loop_codes(op, op.inputs[kTimeWeights]);
  else if (w.stored != ElementType::kFloat32 && !w.quantizer)
    importer.unsupported(op, "time weights that are neither float32 nor quantized");
  w.type = ElementType::kFloat32;
  return importer.graph().add(std::move(w));
}

// Converts SVDF: y = activation(svdf(x features^T)). In an integer layer LiteRT leaves relu to the range of the codes,
// so relu is refused unless the lowest code of y means 0.
void convert_svdf(Importer& importer, Operation& op) {
  const auto& options = importer.options<SVDFOptions>(op);
  const ValueId x_id = importer.real_input(op, kSvdfX), w_id = matmul_weights(importer, op, x_id, 2),
                y = importer.output(op);
  const bool coded = importer.value(x_id).quantizer.has_value();
  const ValueId time_id = time_weights(importer, op, coded);
  const Value x = importer.value(x_id), time = importer.value(time_id);
  if (x.dims.size() != 2 || time.dims.size() != 2) importer.bad(op, "its input or its time weights have not 2 axes");
  if (options.rank() < 1 || time.dims[0] % options.rank() != 0)
    importer.bad(op, std::to_string(time.dims[0]) + " filters of rank " + std::to_string(options.rank()));
  set_matmul_policy(importer, op, x_id, w_id, false);
  if (!coded && importer.value(w_id).quantizer) importer.policy(op).quantization = Quantization::kInt8Weights;
  const ValueId features = importer.between(x_id, "/features");
  importer.value(features).quantizer.reset();
  importer.emit(op, {.op = Op::kDense, .name = "", .words = {}, .inputs = {x_id, w_id}, .outputs = {features}});
  const ValueId s = importer.variables().state(op, kPast, {x.dims[0], time.dims[0], time.dims[1]}, coded);
  const ValueId bias = op.has_input(kSvdfBias) ? svdf_bias(importer, op, s, time) : kNone;
  Node loop{.op = Op::kSvdf, .name = "", .words = {}, .inputs = {features, time_id, bias, s}, .outputs = {y}};
  set_integer(loop, "rank", options.rank());
  if (!coded) return importer.emit_activated(op, std::move(loop), options.activation());
  const std::optional<Quantizer>& codes = importer.value(y).quantizer;
  const bool clamped = options.activation() == Activation::RELU && codes && codes->zero[0] == -128;
  if (!clamped && options.activation() != Activation::NONE)
    importer.unsupported(op, "an integer SVDF with another activation than relu");
  importer.emit(op, std::move(loop));
}

}  // namespace

std::span<const Converter> recurrent_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, &convert_lstm},
      {BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM, &convert_bidirectional_lstm},
      {BuiltinOperator::SVDF, &convert_svdf},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
