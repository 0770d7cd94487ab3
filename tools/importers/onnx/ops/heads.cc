// Imports onnxruntime's attention operators (com.microsoft) as ONNX's operators. Symbols of shapes:
//
//   B batch, L queries, N heads of queries, G heads of keys and values, D features of each head, S keys
//
// Source: onnxruntime, docs/ContribOperators.md. In MultiHeadAttention and Attention a past grows by the L new rows.
// In GroupQueryAttention past and present are one cache of S rows, which receives the new rows after those that it
// has.
#include <algorithm>
#include <limits>

#include "tools/base/option_id.h"
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

constexpr float kUnseen = std::numeric_limits<float>::lowest();

// Returns the mask as a term that is added to the scores, or "" if it is omitted. Operand `input` says which of S keys
// take part: it has 1 or 0 for each key, [B, S] or [B, L, S], or the number of keys, [B].
Term mask_term(Formula& f, const Source& source, int input, int64_t keys) {
  if (!source.given(input)) return "";
  const Ints& dims = source.operand(input)->dims;
  const Term zero = f.whole(ElementType::kInt32, {}, {0});
  const Term no = f.number(source.real("mask_filter_value", -10000));
  const Term given = f("Cast", {f.input(input)}, {{"to", int64_t(::onnx::TensorProto::INT32)}});
  if (dims.size() == 1 && dims[0] == source.operand(0)->dims[0]) {
    Ints places;
    for (int64_t i = 0; i < keys; ++i) places.push_back(i);
    const Term inside =
        f("Less", {f.whole(ElementType::kInt32, {1, 1, 1, keys}, places), f.reshape(given, {dims[0], 1, 1, 1})});
    return f("Where", {inside, f.number(0), no});
  }
  if ((dims.size() != 2 && dims.size() != 3) || dims.back() != keys)
    source.refuse("has a mask of another shape than [batch, keys]", "export again with graph optimization off");
  const Term four = f.reshape(given, {dims[0], 1, dims.size() == 3 ? dims[1] : 1, keys});
  return f("Where", {f("Equal", {four, zero}), no, f.number(0)});
}

Term with_bias(Formula& f, const Term& a, const Term& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  return f("Add", {a, b});
}

Formula::Attributes attention_attributes(const Source& source, int64_t heads, int64_t groups) {
  Formula::Attributes all = {{"q_num_heads", heads}, {"kv_num_heads", groups}};
  if (const float scale = source.real("scale", 0); scale != 0) all.push_back({"scale", scale});
  if (const float cap = source.real("softcap", 0); cap != 0) all.push_back({"softcap", cap});
  if (source.integer("unidirectional", 0) != 0) all.push_back({"is_causal", int64_t{1}});
  return all;
}

int64_t heads_of(const Source& source, const char* attribute) {
  const int64_t heads = source.integer(attribute, 0);
  if (heads < 1) source.malformed(std::string(attribute) + " is missing");
  return heads;
}

// Returns the number of rows of a past [.., rows, D], or 0 if it is omitted.
int64_t past_rows(const Source& source, int input) {
  if (!source.given(input)) return 0;
  const Ints& dims = source.operand(input)->dims;
  if (dims.size() < 2) source.malformed("its past has too few axes");
  return dims[dims.size() - 2];
}

// Splits x [B, rows, N, parts, D], whose shape is `dims`, into `parts` tensors [B, rows, N D].
std::vector<Term> unpacked(Formula& f, const Ints& dims, const Term& x, int64_t parts) {
  std::vector<Term> all;
  for (int64_t i = 0; i < parts; ++i)
    all.push_back(f.reshape(f.slice(x, 3, i, i + 1), {dims[0], dims[1], dims[2] * dims[4]}));
  return all;
}

void multi_head_attention(Import& import, const Source& source) {
  enum Input { kQuery, kKey, kValue, kBias, kMask, kScores, kPastKey, kPastValue, kPastLength, kIndirection };
  if (source.given(kPastLength) || source.given(kIndirection) || source.wants(3))
    source.refuse("keeps a cache of its own kind, or gives out its scores");
  const int64_t heads = heads_of(source, "num_heads");
  Formula f(import, source);
  std::vector<Term> qkv = {f.input(kQuery), f.input(kKey), f.input(kValue)};
  const Ints& q = source.operand(kQuery)->dims;
  const Ints& k = source.operand(source.given(kKey) ? kKey : kQuery)->dims;
  if (q.size() == 5 && q[3] == 3) qkv = unpacked(f, q, qkv[0], 3);
  else if (q.size() != 3 || !source.given(kKey)) source.malformed("its query has not 3 axes");
  if (k.size() == 5 && source.given(kKey)) {
    if (k[3] != 2) source.malformed("its key has 5 axes, and is no pair");
    const std::vector<Term> pair = unpacked(f, k, qkv[1], 2);
    qkv[1] = pair[0], qkv[2] = pair[1];
  } else if (source.given(kKey) && !source.given(kValue)) {
    source.malformed("has a key without a value");
  }
  if (source.given(kBias)) {
    const int64_t width = q.size() == 5 ? q[2] * q[4] : q[2], all = source.operand(kBias)->dims.at(0);
    if (k.size() == 4 || all <= 2 * width) source.refuse("has a bias that does not fit its operands");
    const int64_t ends[] = {0, width, 2 * width, all};
    for (size_t i = 0; i < 3; ++i) qkv[i] = f("Add", {qkv[i], f.slice(f.input(kBias), 0, ends[i], ends[i + 1])});
  }
  const int64_t keys = past_rows(source, kPastKey) + k.at(k.size() == 4 ? 2 : 1);
  const Term mask = with_bias(f, f.input(kScores), mask_term(f, source, kMask, keys));
  for (const Term& y : f.several("Attention", {qkv[0], qkv[1], qkv[2], mask, f.input(kPastKey), f.input(kPastValue)}, 3,
                                 attention_attributes(source, heads, heads)))
    f.give(y);
  f.run();
}

// Imports Attention. x w + b holds queries, keys and values side by side; past and present are [2, B, N, rows, D].
void joined_attention(Import& import, const Source& source) {
  enum Input { kX, kWeights, kBias, kMask, kPast, kScores, kPastLength };
  if (source.given(kPastLength) || source.integer("do_rotary", 0) != 0 ||
      (source.given(kPast) && source.integer("past_present_share_buffer", 0) != 0))
    source.refuse("keeps a cache of its own kind, or turns its queries");
  const int64_t heads = heads_of(source, "num_heads");
  const Ints &x = source.operand(kX)->dims, &w = source.operand(kWeights)->dims;
  if (x.size() != 3 || w.size() != 2) source.malformed("its input has not 3 axes, or its weights not 2");
  const Ints sizes = source.integers("qkv_hidden_sizes", Ints(3, w[1] / 3));
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != w[1] || *std::ranges::min_element(sizes) < 1)
    source.malformed("its weights are not those of queries, keys and values");
  Formula f(import, source);
  Term all = f("MatMul", {f.input(kX), f.input(kWeights)});
  if (source.given(kBias)) all = f("Add", {all, f.input(kBias)});
  std::vector<Term> operands;
  for (int64_t i = 0, at = 0; i < 3; at += sizes[size_t(i++)])
    operands.push_back(f.slice(all, 2, at, at + sizes[size_t(i)]));
  const int64_t rows = past_rows(source, kPast) + x[1];
  operands.push_back(with_bias(f, f.input(kScores), mask_term(f, source, kMask, rows)));
  if (source.given(kPast)) {
    const Ints& past = source.operand(kPast)->dims;
    if (past.size() != 5 || past[0] != 2) source.malformed("its past has not the axes [2, batch, heads, rows, width]");
    for (int64_t i = 0; i < 2; ++i)
      operands.push_back(f.reshape(f.slice(f.input(kPast), 0, i, i + 1), {past.begin() + 1, past.end()}));
  }
  const std::vector<Term> made = f.several("Attention", operands, 3, attention_attributes(source, heads, heads));
  f.give(made[0]);
  if (source.wants(1)) {
    if (sizes[1] != sizes[2]) source.refuse("joins keys and values of several widths");
    const Ints one = {1, x[0], heads, rows, sizes[1] / heads};
    f.give(f("Concat", {f.reshape(made[1], one), f.reshape(made[2], one)}, {{"axis", int64_t{0}}}));
  }
  f.run();
}

// Imports GroupQueryAttention. The L new rows go to the rows p = lengths - (L - 1), p + 1, .. of the cache; p = 0
// without a past. Query l = 0, 1, .. sees the keys 0 to p + l, or with a window only the last ones of them.
class GroupQuery {
 public:
  GroupQuery(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void run() {
    read();
    std::vector<Term> qkv = split();
    if (source_.integer("do_rotary", 0) != 0) {
      qkv[0] = turned(qkv[0], heads_);
      qkv[1] = turned(qkv[1], groups_);
    }
    for (const int i : {1, 2}) qkv[size_t(i)] = cached(qkv[size_t(i)], kPastKey + i - 1);
    const Term y = f_("Attention", {qkv[0], qkv[1], qkv[2], mask()}, attention_attributes(source_, heads_, groups_));
    f_.give(y);
    f_.give(qkv[1]);
    f_.give(qkv[2]);
    f_.run();
  }

 private:
  enum Input { kQuery, kKey, kValue, kPastKey, kPastValue, kLengths, kTotal, kCos, kSin, kPositions, kBias, kSink };

  Term counted(const Ints& dims, int64_t n) {
    Ints numbers;
    for (int64_t i = 0; i < n; ++i) numbers.push_back(i);
    return f_.whole(ElementType::kInt32, dims, numbers);
  }
  Term number(int64_t value) { return f_.whole(ElementType::kInt32, {}, {value}); }

  void read() {
    const Ints& x = source_.operand(kQuery)->dims;
    heads_ = heads_of(source_, "num_heads"), groups_ = heads_of(source_, "kv_num_heads");
    const int64_t parts = source_.given(kKey) ? heads_ : heads_ + 2 * groups_;
    if (x.size() != 3 || x[2] % parts != 0 || heads_ % groups_ != 0)
      source_.malformed("its query does not fit its heads");
    batch_ = x[0], length_ = x[1], width_ = x[2] / parts;
    if (source_.given(kSink) || source_.inputs.size() > size_t(kSink) + 1 || source_.wants(3) ||
        source_.integer("smooth_softmax", 0) != 0)
      source_.refuse("has sinks, a quantized cache, or gives out its scores");
    if (source_.given(kPastKey) != source_.given(kPastValue)) source_.malformed("has a past of keys or values alone");
    rows_ = source_.given(kPastKey) ? past_rows(source_, kPastKey) : length_;
    if (rows_ < length_) source_.malformed("its cache has fewer rows than its query");
    if (source_.given(kPastKey) && source_.given(kTotal) && source_.operand(kTotal)->constant)
      for (const int64_t total : source_.constant_integers(kTotal, "its total length"))
        if (total > rows_)
          source_.refuse("its past has " + std::to_string(rows_) + " rows, and the whole " + std::to_string(total),
                         "give the past as many as the whole, with " + option("shape") + ": it is one cache");
    const Term first = source_.given(kPastKey)
                           ? f_("Sub", {f_("Cast", {f_.input(kLengths)}, {{"to", int64_t(::onnx::TensorProto::INT32)}}),
                                        number(length_ - 1)})
                           : f_.whole(ElementType::kInt32, {batch_}, Ints(size_t(batch_), 0));
    first_ = f_.reshape(first, {batch_});
    positions_ = f_("Add", {f_.reshape(first_, {batch_, 1}), counted({1, length_}, length_)});
  }

  std::vector<Term> split() {
    if (source_.given(kKey)) return {f_.input(kQuery), f_.input(kKey), f_.input(kValue)};
    const int64_t q = heads_ * width_, k = groups_ * width_;
    const Term x = f_.input(kQuery);
    return {f_.slice(x, 2, 0, q), f_.slice(x, 2, q, q + k), f_.slice(x, 2, q + k, q + 2 * k)};
  }

  Term turned(const Term& x, int64_t heads) {
    const Ints& cos = source_.operand(kCos)->dims;
    if (cos.size() != 2) source_.malformed("its table of cosines has not 2 axes");
    return f_("RotaryEmbedding",
              {x, f_.input(kCos), f_.input(kSin), source_.given(kPositions) ? f_.input(kPositions) : positions_},
              {{"num_heads", heads},
               {"interleaved", source_.integer("rotary_interleaved", 0)},
               {"rotary_embedding_dim", 2 * cos[1]}});
  }

  // Returns x [B, L, G D] as [B, G, L, D]; if there is a past [B, G, S, D], the past with these rows put into it.
  Term cached(const Term& x, int past) {
    const Term split = f_.transpose(f_.reshape(x, {batch_, length_, groups_, width_}), {0, 2, 1, 3});
    return source_.given(past) ? f_("TensorScatter", {f_.input(past), split, first_}) : split;
  }

  Term mask() {
    const Term keys = counted({1, 1, 1, rows_}, rows_), queries = f_.reshape(positions_, {batch_, 1, length_, 1});
    Term seen = f_("LessOrEqual", {keys, queries});
    if (const int64_t window = source_.integer("local_window_size", -1); window > 0)
      seen = f_("And", {seen, f_("Greater", {keys, f_("Sub", {queries, number(window)})})});
    return source_.given(kBias) ? f_("Where", {seen, f_.input(kBias), f_.number(kUnseen)}) : seen;
  }

  const Source& source_;
  Formula f_;
  int64_t batch_ = 0, length_ = 0, heads_ = 0, groups_ = 0, width_ = 0, rows_ = 0;
  Term first_, positions_;  // p [B], and the rows of the new keys [B, L]
};

void group_query_attention(Import& import, const Source& source) { GroupQuery(import, source).run(); }

// Imports RotaryEmbedding of com.microsoft. Inputs: x, position ids (the first one, or one for each row of x), tables
// of cosines and sines [positions, R / 2], with R rotated features.
void rotate_heads(Import& import, const Source& source) {
  const Ints &x = source.operand(0)->dims, &ids = source.operand(1)->dims, &cos = source.operand(2)->dims;
  if ((x.size() != 3 && x.size() != 4) || cos.size() != 2) source.malformed("its operands have other axes");
  const int64_t length = x[x.size() == 4 ? 2 : 1];
  Formula f(import, source);
  Term positions = f.input(1);
  if (ids.size() < 2) {
    Ints steps;
    for (int64_t i = 0; i < length; ++i) steps.push_back(i);
    positions = f("Add", {f.reshape(positions, {1, 1}), f.whole(source.operand(1)->type, {1, length}, steps)});
    positions = f("Expand", {positions, f.list({x[0], length})});
  }
  int64_t heads = source.integer("num_heads", 0);
  const int64_t turned = source.integer("rotary_embedding_dim", 0);
  if (heads == 0 && turned == 0 && x.size() == 3) heads = x[2] / (2 * cos[1]);
  f.give(
      f("RotaryEmbedding", {f.input(0), f.input(2), f.input(3), positions},
        {{"num_heads", heads}, {"interleaved", source.integer("interleaved", 0)}, {"rotary_embedding_dim", turned}}));
  f.run();
}

constexpr OperatorImporter kHeadImporters[] = {
    {"MultiHeadAttention", multi_head_attention, kMicrosoft},
    {"Attention", joined_attention, kMicrosoft},
    {"GroupQueryAttention", group_query_attention, kMicrosoft},
    {"RotaryEmbedding", rotate_heads, kMicrosoft},
};

}  // namespace

std::span<const OperatorImporter> heads_importers() { return kHeadImporters; }

}  // namespace nacre::tools::onnx_import
