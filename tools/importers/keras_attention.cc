// Attention. Its projections are layers of their own (name/query, ..), so that policies can be given to them.
//
//   q [batch, t, d], k and v [batch, s, d]      per head  y = softmax(q k^T / sqrt(width) + mask) v
//
// Keras's causal mask adds -10^9 where a query would see what comes after it.
#include <algorithm>
#include <cmath>

#include "engine/ops/reduce_axes.h"
#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

constexpr float kMasked = -1e9f;

ValueId matmul(const Call& call, ValueId a, ValueId b, bool transpose_b) {
  Node node = call.step(Op::kBatchedMatmul, {a, b});
  if (transpose_b) set_integer(node, "transpose_b", 1);
  return call.emit(std::move(node));
}

ValueId causal(const Call& call, ValueId scores) {
  const int64_t t = call.dims(scores)[size_t(call.rank(scores) - 2)], s = call.dims(scores).back();
  call.spend(t * s);
  std::vector<float> mask(size_t(t * s), 0);
  for (int64_t i = 0; i < t; ++i)
    for (int64_t j = i + 1; j < s; ++j) mask[size_t(i * s + j)] = kMasked;
  return call.emit(Op::kAdd, {scores, call.constant("causal_mask", {t, s}, mask)});
}

ValueId softmax(const Call& call, ValueId x) {
  Node node = call.step(Op::kSoftmax, {x});
  set_integer(node, "axis", call.rank(x) - 1);
  set_real(node, "beta", 1);
  return call.emit(std::move(node));
}

void refuse_masks(const Call& call) {
  for (const char* key : {"attention_mask", "query_mask", "value_mask", "key_mask", "mask"})
    if (call.called_with(key)) call.unsupported(std::string("argument ") + key);
  for (const ValueId id : call.inputs)
    if (call.importer->masked().contains(id)) call.unsupported("a masked sequence");
}

// Query, value and key of a call, whichever way they are given.
struct Operands {
  ValueId query, key, value;
};

// By their places, in the arguments or in the list that is the first of them; the key may be null. Behind them stand
// masks and flags.
Operands operands_of(const Call& call) {
  ValueId at[3] = {kNone, kNone, kNone};
  size_t place = 0, next = 0;
  const auto take = [&](const Json& argument) {
    if (place < 3 && is_operand(argument)) at[place] = call.input(next++);
    if (argument.is_boolean() && argument.get<bool>()) call.unsupported("an argument without its name");
    ++place;
  };
  const bool placed = call.args.is_array() && !call.args.empty();
  const bool list = placed && call.args.at(size_t(0)).is_array() && !is_operand(call.args.at(size_t(0)));
  if (list) {
    for (const Json& argument : call.args.at(size_t(0))) take(argument);
    place = 3;
  }
  for (size_t i = list ? 1 : 0; placed && i < call.args.size(); ++i) take(call.args.at(i));
  for (; !placed && next < std::min<size_t>(call.inputs.size(), 3); ++next) at[next] = call.input(next);
  if (next != call.inputs.size()) call.unsupported("a mask");
  const auto named = [&](const char* key, ValueId otherwise) {
    const auto found = call.keyword.find(key);
    return found == call.keyword.end() ? otherwise : found->second.at(0);
  };
  const ValueId query = named("query", at[0]), value = named("value", at[1]);
  const ValueId key = named("key", at[2] == kNone ? value : at[2]);
  if (query == kNone || value == kNone) call.bad("has no query or no value");
  return {query, key, value};
}

// ---- MultiHeadAttention, GroupQueryAttention ----

struct Heads {
  int64_t query, key, width, value_width;
};

// The configuration of a sublayer: its policy is this layer's, or an entry of this layer's map.
Json numbers_of(const Call& call) {
  return call.given("dtype") ? Json::object({{"dtype", *call.find("dtype")}}) : Json::object();
}

// x [batch, t, d] -> [batch, heads, t, width], by the layer's own dense.
ValueId projected(const Call& call, const char* name, size_t place, ValueId x, int64_t heads, int64_t width) {
  const size_t each = call.flag("use_bias", true) ? 2 : 1;
  const std::string dense_name = std::string(name) + "_dense";
  Call part = call.part("EinsumDense", name, numbers_of(call),
                        call.weights.part({dense_name, "_" + dense_name}, place * each, each));
  const ValueId bias = each == 2 ? part.variable(1, "bias", "flat", {heads * width}) : kNone;
  const int64_t in = call.dims(x).back();
  const ValueId y = dense(part, x, 0, in, heads * width, bias);
  const std::vector<int64_t> dims = call.dims(x);
  return part.transpose(part.reshape(y, {dims[0], dims[1], heads, width}), {0, 2, 1, 3});
}

// Each of the heads of keys several times in a row: [batch, heads, ..] -> [batch, heads times, ..].
ValueId repeated(const Call& call, ValueId x, int64_t times) {
  const std::vector<int64_t> d = call.dims(x);
  const ValueId apart = call.repeat(call.reshape(x, {d[0], d[1], 1, d[2], d[3]}), {1, 1, times, 1, 1});
  return call.reshape(apart, {d[0], d[1] * times, d[2], d[3]});
}

void convert_heads(Call& call, const Heads& h) {
  refuse_masks(call);
  if (call.flag("use_gate", false)) call.unsupported("use_gate");
  if (call.given("sliding_window")) call.unsupported("sliding_window");
  const Operands x = operands_of(call);
  if (call.rank(x.query) != 3 || call.rank(x.value) != 3 || call.rank(x.key) != 3)
    call.unsupported("inputs of other than three axes");
  const ValueId q = projected(call, "query", 0, x.query, h.query, h.width);
  ValueId k = projected(call, "key", 1, x.key, h.key, h.width);
  ValueId v = projected(call, "value", 2, x.value, h.key, h.value_width);
  if (h.query != h.key) k = repeated(call, k, h.query / h.key), v = repeated(call, v, h.query / h.key);
  ValueId scores = matmul(call, call.scaled(q, 1 / std::sqrt(float(h.width))), k, true);
  if (call.called_with("use_causal_mask")) scores = causal(call, scores);
  scores = softmax(call, scores);
  const std::vector<int64_t> dims = call.dims(x.query);
  ValueId y = call.transpose(matmul(call, scores, v, false), {0, 2, 1, 3});
  y = call.reshape(y, {dims[0], dims[1], h.query * h.value_width});
  const size_t each = call.flag("use_bias", true) ? 2 : 1;
  Call out = call.part("EinsumDense", "attention_output", numbers_of(call),
                       call.weights.part({"output_dense", "_output_dense"}, 3 * each, each));
  const int64_t in = h.query * h.value_width, width = out.weights[0].elements() / std::max<int64_t>(in, 1);
  const ValueId bias = each == 2 ? out.variable(1, "bias", "flat", {width}) : kNone;
  call.outputs = {dense(out, y, 0, in, width, bias)};
  if (call.called_with("return_attention_scores")) call.outputs.push_back(scores);
}

void convert_multi_head(Call& call) {
  const int64_t heads = call.integer("num_heads", 1), width = call.integer("key_dim", 1);
  const Json* axes = call.find("attention_axes");
  if (axes != nullptr && call.list("attention_axes") != std::vector<int64_t>{1})
    call.unsupported("attention over other axes than the first");
  if (call.list("output_shape").size() > 1) call.unsupported("an output of several axes");
  convert_heads(call, {heads, heads, width, call.integer("value_dim", width)});
}

void convert_group_query(Call& call) {
  const int64_t width = call.integer("head_dim", 1), heads = call.integer("num_query_heads", 1),
                keys = call.integer("num_key_value_heads", 1);
  if (keys < 1 || heads % keys != 0) call.bad("query heads that its key heads do not divide");
  convert_heads(call, {heads, keys, width, width});
}

// ---- Attention, AdditiveAttention: no projections ----

// sum over the width of tanh(q + k), times a scale: [batch, t, 1, d] and [batch, 1, s, d] -> [batch, t, s]
ValueId additive_scores(const Call& call, const Operands& x, ValueId inner, ValueId scale) {
  const std::vector<int64_t> q = call.dims(x.query), k = call.dims(x.key);
  ValueId sum =
      call.emit(Op::kAdd, {call.reshape(x.query, {q[0], q[1], 1, q[2]}), call.reshape(x.key, {k[0], 1, k[1], k[2]})});
  if (inner != kNone) sum = call.emit(Op::kMul, {sum, inner});
  sum = call.emit(Op::kTanh, {sum});
  if (scale != kNone) sum = call.emit(Op::kMul, {sum, scale});
  return call.reduce(Reduce::kSum, sum, {3}, false);
}

void convert_attention(Call& call) {
  refuse_masks(call);
  const Operands x = operands_of(call);
  if (call.rank(x.query) != 3 || call.rank(x.key) != 3 || call.rank(x.value) != 3)
    call.bad("inputs of other than three axes");
  const bool additive = call.class_name == "AdditiveAttention", scaled = call.flag("use_scale", additive);
  ValueId scores = kNone;
  if (additive) {
    scores = additive_scores(call, x, kNone, scaled ? call.variable(0, "scale") : kNone);
  } else if (call.text("score_mode", "dot") == "concat") {
    const size_t weight = scaled ? 1 : 0;
    scores = additive_scores(call, x, scaled ? call.variable(0, "scale") : kNone, kNone);
    scores = call.emit(Op::kMul, {scores, call.variable(weight, "concat_score_weight")});
  } else {
    scores = matmul(call, x.query, x.key, true);
    if (scaled) scores = call.emit(Op::kMul, {scores, call.variable(0, "scale")});
  }
  if (call.called_with("use_causal_mask") || call.flag("causal", false)) scores = causal(call, scores);
  scores = softmax(call, scores);
  call.outputs = {matmul(call, scores, x.value, false)};
  if (call.called_with("return_attention_scores")) call.outputs.push_back(scores);
}

constexpr Converter kAttentionRows[] = {
    {"MultiHeadAttention", &convert_multi_head},     {"GroupQueryAttention", &convert_group_query},
    {"GroupedQueryAttention", &convert_group_query}, {"Attention", &convert_attention},
    {"AdditiveAttention", &convert_attention},
};

}  // namespace

std::span<const Converter> attention_converters() { return kAttentionRows; }

}  // namespace nacre::tools::keras
