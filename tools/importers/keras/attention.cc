// Converts attention. The projections of MultiHeadAttention are layers of their own (name/query), with own policies.
//
//   q [batch, t, d], k and v [batch, s, d]      per head of `width` features  y = softmax(q k^T / sqrt(width)) v
//
// Masks hide scores: the query's is [batch, t, 1], that of value and key [batch, 1, s], a given one [batch, t, s], with
// or without an axis of heads, or [t, s]. Layers with heads replace a hidden score by -10^9, Attention subtracts 10^9.
// Under float16 these are -3 10^4 and 65504.
#include <algorithm>
#include <cmath>

#include "engine/ops/reduce_axes.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

ValueId matmul(const Call& call, ValueId a, ValueId b, bool transpose_b) {
  Node node = call.step(Op::kBatchedMatmul, {a, b});
  if (transpose_b) set_integer(node, "transpose_b", 1);
  return call.emit(std::move(node));
}

// Returns a condition [t, s] that is true for keys that a query sees. `causal` hides later keys. A window above 0 hides
// keys that are `window` or more steps away.
ValueId places_seen(const Call& call, int64_t t, int64_t s, bool causal, int64_t window) {
  call.spend(t * s);
  std::vector<float> seen(size_t(t * s), 0);
  for (int64_t i = 0; i < t; ++i)
    for (int64_t j = 0; j < s; ++j) {
      const bool near = window == 0 || std::abs(i - j) < window;
      seen[size_t(i * s + j)] = near && !(causal && j > i) ? 1 : 0;
    }
  return as_condition(call, call.constant("seen", {t, s}, seen));
}

ValueId with_axes(const Call& call, ValueId x, const std::vector<int>& at) {
  std::vector<int64_t> dims = call.dims(x);
  for (const int axis : at) dims.insert(dims.begin() + axis, 1);
  return call.reshape(x, dims);
}

// The query, value and key of a call, in whichever way the call gives them.
struct Operands {
  ValueId query, key, value;
  ValueId query_mask = kNone, key_mask = kNone, value_mask = kNone;  // given masks, or those that the tensors carry
};

// Finds the operands by name or by position: query, value, key, in the arguments or in a list that is the first
// argument. The key may be null. Masks may follow by position (name_masks in mask.cc); a flag that is true must be
// given by name.
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
  const auto masked = [&](const char* argument, ValueId tensor) {
    const auto given = call.keyword.find(argument);
    return given == call.keyword.end() ? mask_left(call, tensor) : as_condition(call, given->second.at(0));
  };
  const bool own = call.class_name == "MultiHeadAttention";  // Keras replaces query_mask by the query's own mask
  if (own && call.keyword.contains("query_mask")) call.note("query_mask changes nothing: Keras takes the query's own");
  const bool key_given = named("key", at[2]) != kNone;
  return {query,
          key,
          value,
          own ? mask_left(call, query) : masked("query_mask", query),
          key_given || call.keyword.contains("key_mask") ? masked("key_mask", key) : kNone,
          masked("value_mask", value)};
}

// ---- MultiHeadAttention, GroupQueryAttention ----

struct Heads {
  int64_t query, key, width, value_width;
};

// Returns the call of a projection. Its policy is this layer's, or an entry of this layer's map. If Keras quantized the
// projection after it was made, only its variables tell. Quantized variables are decoded.
Call sublayer(const Call& call, const std::string& name, size_t place) {
  const size_t each = call.flag("use_bias", true) ? 2 : 1;
  const std::string dense_name = (name == "attention_output" ? "output" : name) + "_dense";
  Json config = call.given("dtype") ? Json::object({{"dtype", *call.find("dtype")}}) : Json::object();
  if (each == 2) config["bias_axes"] = "x";
  for (const char* key : {"kernel_regularizer", "bias_regularizer"})
    if (call.given(key)) config[key] = *call.find(key);
  Call part = call.part("EinsumDense", name, config,
                        call.weights.part({dense_name, "_" + dense_name, name}, place * each, each));
  const std::string said = quantization_mode(config), mode = said.empty() ? stored_mode(part.weights) : said;
  if (mode.empty()) return part;
  if (said.empty() && source_policy(config).find("Map") == std::string::npos) part.config["dtype"] = quantized(mode);
  decode_kernel(part, mode);
  return part;
}

// Projects x [batch, t, d] -> [batch, heads, t, width] with the dense layer of the sublayer `name`.
ValueId projected(const Call& call, const char* name, size_t place, ValueId x, int64_t heads, int64_t width) {
  const Call part = sublayer(call, name, place);
  const ValueId bias = call.flag("use_bias", true) ? part.variable(1, "bias", "flat", {heads * width}) : kNone;
  const int64_t in = call.dims(x).back();
  const ValueId y = dense(part, x, 0, in, heads * width, bias);
  const std::vector<int64_t> dims = call.dims(x);
  return part.transpose(part.reshape(y, {dims[0], dims[1], heads, width}), {0, 2, 1, 3});
}

// Repeats each head of keys or values `times` times in a row: [batch, heads, ..] -> [batch, heads times, ..].
ValueId repeated(const Call& call, ValueId x, int64_t times) {
  const std::vector<int64_t> d = call.dims(x);
  const ValueId apart = call.repeat(call.reshape(x, {d[0], d[1], 1, d[2], d[3]}), {1, 1, times, 1, 1});
  return call.reshape(apart, {d[0], d[1] * times, d[2], d[3]});
}

// An order of the axes of x [batch, .., c]: first the axes that belong to the batch, then the axes of attention, which
// become one, then c. `back` restores x's order.
struct Layout {
  std::vector<int> perm, back;
  std::vector<int64_t> turned;  // sizes of x in that order
  int64_t batch = 1, time = 1;
};

Layout layout_of(const Call& call, ValueId x, const std::vector<int>& axes) {
  const int rank = call.rank(x);
  Layout made;
  for (int i = 0; i + 1 < rank; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) made.perm.push_back(i);
  const size_t free = made.perm.size();
  made.perm.insert(made.perm.end(), axes.begin(), axes.end());
  made.perm.push_back(rank - 1);
  made.back.resize(size_t(rank));
  for (size_t i = 0; i < made.perm.size(); ++i) {
    made.back[size_t(made.perm[i])] = int(i);
    made.turned.push_back(call.dims(x)[size_t(made.perm[i])]);
    if (i + 1 < made.perm.size()) (i < free ? made.batch : made.time) *= made.turned.back();
  }
  return made;
}

ValueId as_sequences(const Call& call, ValueId x, const std::vector<int>& axes) {
  const Layout layout = layout_of(call, x, axes);
  return call.reshape(call.transpose(x, layout.perm), {layout.batch, layout.time, layout.turned.back()});
}

// Returns the axes of attention, which are the same for query and value.
std::vector<int> attention_axes(const Call& call, ValueId query) {
  std::vector<int> axes;
  const int rank = call.rank(query);
  if (call.given("attention_axes"))
    for (const int64_t a : call.list("attention_axes")) axes.push_back(call.axis(a, rank));
  else
    for (int i = 1; i + 1 < rank; ++i) axes.push_back(i);
  if (axes.empty() || axes[0] < 1 || axes.back() + 1 >= rank || !std::is_sorted(axes.begin(), axes.end()))
    call.unsupported("such attention axes");
  return axes;
}

// Returns conditions that all broadcast to the scores [batch, heads, t, s].
std::vector<ValueId> conditions(const Call& call, const Operands& x, int64_t t, int64_t s) {
  std::vector<ValueId> all;
  if (x.query_mask != kNone) all.push_back(with_axes(call, x.query_mask, {1, 3}));
  if (x.value_mask != kNone) all.push_back(with_axes(call, x.value_mask, {1, 2}));
  if (x.key_mask != kNone && x.key_mask != x.value_mask) all.push_back(with_axes(call, x.key_mask, {1, 2}));
  if (const auto given = call.keyword.find("attention_mask"); given != call.keyword.end()) {
    const ValueId mask = as_condition(call, given->second.at(0));
    if (call.rank(mask) == 3) all.push_back(with_axes(call, mask, {1}));
    else if (call.rank(mask) == 4 || call.rank(mask) == 2) all.push_back(mask);
    else call.unsupported("an attention mask of shape " + dims_text(call.dims(mask)));
  }
  const bool causal = call.called_with("use_causal_mask");
  const int64_t window = call.integer("sliding_window", 0);
  if (causal || window > 0) all.push_back(places_seen(call, t, s, causal, window));
  return all;
}

void convert_heads(Call& call, const Heads& h) {
  const Operands x = operands_of(call);
  const std::vector<int> axes = attention_axes(call, x.query);
  if (call.rank(x.value) != call.rank(x.query) || call.rank(x.key) != call.rank(x.query))
    call.bad("a query and values of different ranks");
  const Layout layout = layout_of(call, x.query, axes);
  const bool gated = call.flag("use_gate", false), scored = call.called_with("return_attention_scores");
  const ValueId queries = as_sequences(call, x.query, axes);
  const ValueId q = projected(call, "query", 0, queries, h.query, h.width);
  ValueId k = projected(call, "key", 1, as_sequences(call, x.key, axes), h.key, h.width);
  const ValueId gate =
      gated ? call.emit(Op::kSigmoid, {projected(call, "gate", 2, queries, h.query, h.value_width)}) : kNone;
  ValueId v = projected(call, "value", gated ? 3 : 2, as_sequences(call, x.value, axes), h.key, h.value_width);
  if (h.query != h.key) k = repeated(call, k, h.query / h.key), v = repeated(call, v, h.query / h.key);
  const std::vector<ValueId> seen = conditions(call, x, layout.time, call.dims(k)[2]);
  if (call.rank(x.query) != 3 && (!seen.empty() || scored)) call.unsupported("masks or scores of more than three axes");
  ValueId scores = matmul(call, call.scaled(q, 1 / std::sqrt(float(h.width))), k, true);
  for (const ValueId condition : seen) scores = call.select(condition, scores, call.number(hidden_score(call)));
  scores = call.softmax(scores, 3);
  if (scored || call.real("dropout", 0) > 0)  // as Keras without fused attention: 0 where hidden
    for (const ValueId condition : seen) scores = call.select(condition, scores, call.number(0));
  ValueId y = matmul(call, scores, v, false);
  if (gate != kNone) y = call.emit(Op::kMul, {y, gate});
  y = call.reshape(call.transpose(y, {0, 2, 1, 3}), {layout.batch, layout.time, h.query * h.value_width});
  const Call out = sublayer(call, "attention_output", gated ? 4 : 3);
  const int64_t in = h.query * h.value_width, width = out.weights[0].elements() / std::max<int64_t>(in, 1);
  const ValueId bias = call.flag("use_bias", true) ? out.variable(1, "bias", "flat", {width}) : kNone;
  y = dense(out, y, 0, in, width, bias);
  std::vector<int64_t> sizes = layout.turned;
  sizes.back() = width;
  y = call.transpose(call.reshape(y, sizes), layout.back);
  if (const std::vector<int64_t> shape = call.list("output_shape"); shape.size() > 1) {
    std::vector<int64_t> apart(call.dims(y).begin(), call.dims(y).end() - 1);
    apart.insert(apart.end(), shape.begin(), shape.end());
    y = call.reshape(y, apart);
  }
  call.outputs = {y};
  if (scored) call.outputs.push_back(scores);
}

void convert_multi_head(Call& call) {
  const int64_t heads = call.integer("num_heads", 1), width = call.integer("key_dim", 1);
  convert_heads(call, {heads, heads, width, call.integer("value_dim", width)});
}

void convert_group_query(Call& call) {
  const int64_t width = call.integer("head_dim", 1), heads = call.integer("num_query_heads", 1),
                keys = call.integer("num_key_value_heads", 1);
  if (keys < 1 || heads % keys != 0) call.bad("query heads that its key heads do not divide");
  convert_heads(call, {heads, keys, width, width});
}

// ---- Attention, AdditiveAttention: no projections ----

// Returns sum_d scale_d tanh(inner (q_d + k_d)) for q [.., t, 1, d] and k [.., 1, s, d]: [.., t, s]. kNone counts as 1.
ValueId additive_scores(const Call& call, const Operands& x, ValueId inner, ValueId scale) {
  const int rank = call.rank(x.query);
  ValueId sum = call.emit(Op::kAdd, {with_axes(call, x.query, {rank - 1}), with_axes(call, x.key, {rank - 2})});
  if (inner != kNone) sum = call.emit(Op::kMul, {sum, inner});
  sum = call.emit(Op::kTanh, {sum});
  if (scale != kNone) sum = call.emit(Op::kMul, {sum, scale});
  return call.reduce(Reduce::kSum, sum, {rank}, false);
}

// Sets the masks if they are given as a list of the query's and the value's.
void find_masks(const Call& call, Operands& x) {
  const Json* given = call.kwargs.is_object() && call.kwargs.contains("mask") ? &call.kwargs.at("mask") : nullptr;
  const auto found = call.keyword.find("mask");
  if (given == nullptr || found == call.keyword.end() || !given->is_array() || given->size() < 2) return;
  size_t next = 0;
  x.query_mask = is_operand(given->at(size_t(0))) ? as_condition(call, found->second.at(next++)) : kNone;
  x.value_mask = is_operand(given->at(size_t(1))) ? as_condition(call, found->second.at(next++)) : kNone;
}

ValueId scores_of(const Call& call, const Operands& x) {
  const bool additive = call.class_name == "AdditiveAttention", scaled = call.flag("use_scale", additive);
  if (additive) return additive_scores(call, x, kNone, scaled ? call.variable(0, "scale") : kNone);
  if (call.text("score_mode", "dot") == "concat") {
    const ValueId scores = additive_scores(call, x, scaled ? call.variable(0, "scale") : kNone, kNone);
    return call.emit(Op::kMul, {scores, call.variable(scaled ? 1 : 0, "concat_score_weight")});
  }
  const ValueId scores = matmul(call, x.query, x.key, true);
  return scaled ? call.emit(Op::kMul, {scores, call.variable(0, "scale")}) : scores;
}

void convert_attention(Call& call) {
  Operands x = operands_of(call);
  const int rank = call.rank(x.query);
  if (rank < 3 || rank > 5 || call.rank(x.key) != rank || call.rank(x.value) != rank)
    call.bad("inputs of other than three axes");
  find_masks(call, x);
  if (rank != 3 && (x.query_mask != kNone || x.value_mask != kNone)) call.unsupported("masks of more than three axes");
  ValueId scores = scores_of(call, x);
  const int64_t t = call.dims(scores)[size_t(rank) - 2], s = call.dims(scores).back();
  const float hidden = hidden_score(call) == -1e9f ? -1e9f : -65504;
  const bool causal = call.called_with("use_causal_mask") || call.flag("causal", false);
  ValueId seen = causal ? places_seen(call, t, s, true, 0) : kNone;
  if (x.value_mask != kNone) {
    const ValueId mask = with_axes(call, x.value_mask, {1});
    seen = seen == kNone ? mask : call.select(mask, seen, mask);  // true where both are
  }
  if (seen != kNone) scores = call.select(seen, scores, call.shifted(scores, hidden));
  scores = call.softmax(scores, rank - 1);
  ValueId y = matmul(call, scores, x.value, false);
  if (x.query_mask != kNone) y = call.select(with_axes(call, x.query_mask, {2}), y, call.number(0));
  call.outputs = {y};
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
