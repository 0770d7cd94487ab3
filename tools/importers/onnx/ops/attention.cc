// Imports Attention, RotaryEmbedding and CausalConvWithState as formulas. Symbols of shapes:
//
//   B batch, H heads of queries, G heads of keys and values, L queries, S keys, D features of each head
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

// The number that is added to the score of a masked pair. e^score is then 0 beside any other score.
constexpr float kMasked = std::numeric_limits<float>::lowest();

// y = softmax(cap(scale q k^T) + bias) v,  cap(s) = c tanh(s / c), on heads [B, H, L, D]. Head h of the queries reads
// head h / (H / G) of keys and values. Operands [B, L, H D] are split into heads, and y is joined again.
class Attention {
 public:
  Attention(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void run() {
    read();
    Term scores = product(queries_, f_.transpose(keys_, {0, 1, 3, 2}), length_);
    const Term plain = scores;
    const float cap = source_.real("softcap", 0);
    if (cap > 0) scores = f_("Mul", {f_("Tanh", {f_("Mul", {scores, f_.number(1 / cap)})}), f_.number(cap)});
    const Term capped = scores;
    for (const Term& bias : biases()) scores = f_("Add", {scores, bias});
    const Term weights = f_("Softmax", {scores}, {{"axis", int64_t{-1}}});
    give_heads(product(weights, values_, length_));
    f_.give(keys_);
    f_.give(values_);
    const int64_t mode = source_.integer("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) source_.malformed("qk_matmul_output_mode is outside 0 to 3");
    if (mode == 2 && masks_ && source_.wants(3))
      source_.refuse("gives out masked scores, which are infinite", "take qk_matmul_output_mode 0, 1 or 3");
    const Term of_mode[] = {plain, capped, scores, weights};
    f_.give(of_mode[mode]);
    f_.run();
  }

 private:
  enum Input { kQ, kK, kV, kMask, kPastK, kPastV, kLengths };

  // Returns the operand, [B, L, H D] or [B, H, L, D], as [B, H, L, D]. Sets `heads` to H and `length` to L.
  Term heads_of(int input, const char* attribute, int64_t* heads, int64_t* length) {
    const OperandPtr& x = source_.operand(input);
    const Ints& dims = x->dims;
    if (x->rank() != 3 && x->rank() != 4) source_.malformed("an operand has neither 3 nor 4 axes");
    if (dims[0] != source_.operand(kQ)->dims[0]) source_.malformed("its operands have several batches");
    *heads = x->rank() == 4 ? dims[1] : source_.integer(attribute, 0);
    *length = dims[size_t(x->rank()) - 2];
    if (x->rank() == 4) return f_.input(input);
    if (*heads < 1 || dims[2] % *heads != 0) source_.malformed("its width is no multiple of its heads");
    return f_.transpose(f_.reshape(f_.input(input), {dims[0], dims[1], *heads, dims[2] / *heads}), {0, 2, 1, 3});
  }

  void read() {
    batch_ = source_.operand(kQ)->rank() > 0 ? source_.operand(kQ)->dims[0] : 0;
    int64_t of_values = 0, values = 0;
    queries_ = heads_of(kQ, "q_num_heads", &heads_, &length_);
    keys_ = heads_of(kK, "kv_num_heads", &groups_, &keys_count_);
    values_ = heads_of(kV, "kv_num_heads", &of_values, &values);
    width_ = width(kQ, heads_);
    value_width_ = width(kV, groups_);
    if (of_values != groups_ || values != keys_count_ || width(kK, groups_) != width_ || heads_ % groups_ != 0)
      source_.malformed("its queries, keys and values do not fit each other");
    const float scale = source_.real("scale", 1 / std::sqrt(float(width_)));
    if (scale != 1) queries_ = f_("Mul", {queries_, f_.number(scale)});
    if (source_.given(kPastK) != source_.given(kPastV)) source_.malformed("has a past of keys or values alone");
    if (!source_.given(kPastK)) return;
    if (source_.operand(kPastK)->rank() != 4) source_.malformed("its past has not 4 axes");
    past_ = source_.operand(kPastK)->dims[2];
    if (past_ == 0) return;  // the cache is empty before the first step
    keys_count_ += past_;
    keys_ = f_("Concat", {f_.input(kPastK), keys_}, {{"axis", int64_t{2}}});
    values_ = f_("Concat", {f_.input(kPastV), values_}, {{"axis", int64_t{2}}});
  }

  int64_t width(int input, int64_t heads) const {
    const Ints& dims = source_.operand(input)->dims;
    return dims.size() == 4 ? dims[3] : dims[2] / heads;
  }

  // Returns the product of a [B, H, L, ..] and b [B, G, .., ..]. H / G heads of a share one head of b.
  Term product(const Term& a, const Term& b, int64_t rows) {
    if (heads_ == groups_) return f_("MatMul", {a, b});
    const bool scores = a == queries_;
    const int64_t inner = scores ? width_ : keys_count_, columns = scores ? keys_count_ : value_width_;
    const Term shared = f_.reshape(a, {batch_, groups_, heads_ / groups_, rows, inner});
    const Term y = f_("MatMul", {shared, f_.reshape(b, {batch_, groups_, 1, inner, columns})});
    return f_.reshape(y, {batch_, heads_, rows, columns});
  }

  void give_heads(const Term& y) {
    if (source_.operand(kQ)->rank() == 4) return f_.give(y);
    f_.give(f_.reshape(f_.transpose(y, {0, 2, 1, 3}), {batch_, length_, heads_ * value_width_}));
  }

  // Returns the terms that are added to the scores: the given mask, one that masks keys later than the query, and one
  // that masks keys beyond the ends of the sequences.
  std::vector<Term> biases() {
    std::vector<Term> all;
    if (source_.given(kMask)) all.push_back(mask());
    if (source_.integer("is_causal", 0) != 0) {
      all.push_back(f_.computed({length_, keys_count_},
                                [&](int64_t at) { return at % keys_count_ > at / keys_count_ + past_ ? kMasked : 0; }));
      masks_ = true;
    }
    if (source_.given(kLengths)) {
      const Term lengths = f_.reshape(f_.to_real(f_.input(kLengths)), {batch_, 1, 1, 1});
      const Term inside = f_("Less", {f_.counted({1, 1, 1, keys_count_}), lengths});
      all.push_back(f_("Where", {inside, f_.number(0), f_.number(kMasked)}));
      masks_ = true;
    }
    return all;
  }

  // Returns the mask as a term that is added to the scores. A mask of bools is true for pairs that take part. A mask
  // of fewer keys than S, but more than one, masks the keys that it lacks.
  Term mask() {
    const OperandPtr& given = source_.operand(kMask);
    if (given->rank() == 0) source_.malformed("its mask has no axis");
    Term bias = f_.input(kMask);
    masks_ |= given->type == ElementType::kBool;
    if (given->type == ElementType::kBool) bias = f_("Where", {bias, f_.number(0), f_.number(kMasked)});
    const int64_t missing = keys_count_ - given->dims.back();
    if (missing <= 0 || given->dims.back() == 1) return bias;
    masks_ = true;
    Ints dims = given->dims;
    dims.back() = missing;
    return f_("Concat", {bias, f_.filled(dims, kMasked)}, {{"axis", int64_t{-1}}});
  }

  const Source& source_;
  Formula f_;
  Term queries_, keys_, values_;  // [B, H, L, D], [B, G, S, D], [B, G, S, D of values]
  int64_t batch_ = 0, heads_ = 0, groups_ = 0, length_ = 0, keys_count_ = 0, width_ = 0, value_width_ = 0, past_ = 0;
  bool masks_ = false;
};

void attention(Import& import, const Source& source) { Attention(import, source).run(); }

// Rotates pairs (a, b) of features by the angle of their position:  a' = a cos - b sin,  b' = a sin + b cos
//
//   x [B, L, H D] or [B, H, L, D]     cos, sin [B, L, R / 2], or [positions, R / 2] with positions [B, L]
//
// The pairs are (i, i + R / 2), or (2 i, 2 i + 1) if interleaved, among the first R features. The others stay.
void rotary_embedding(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const bool split = x->rank() == 3;
  if (!split && x->rank() != 4) source.malformed("its input has neither 3 nor 4 axes");
  const int64_t heads = split ? source.integer("num_heads", 0) : x->dims[1];
  if (heads < 1 || (split && x->dims[2] % heads != 0)) source.malformed("its width is no multiple of its heads");
  const int64_t batch = x->dims[0], length = x->dims[split ? 1 : 2], width = split ? x->dims[2] / heads : x->dims[3];
  const int64_t given = source.integer("rotary_embedding_dim", 0), turned = given == 0 ? width : given;
  if (turned < 2 || turned > width || turned % 2 != 0) source.malformed("its rotary_embedding_dim does not fit");
  Formula f(import, source);
  Term in = f.input(0);
  in = split ? f.reshape(in, {batch, length, heads, width}) : f.transpose(in, {0, 2, 1, 3});
  const bool interleaved = source.integer("interleaved", 0) != 0;
  const int64_t half = turned / 2;
  const auto angles = [&](int input) {
    const Term table = f.input(input), rows = source.given(3) ? f("Gather", {table, f.input(3)}) : table;
    return f.reshape(rows, {batch, length, 1, half});
  };
  const Term a = interleaved ? f.slice(in, 3, 0, turned, 2) : f.slice(in, 3, 0, half);
  const Term b = interleaved ? f.slice(in, 3, 1, turned, 2) : f.slice(in, 3, half, turned);
  const Term c = angles(1), s = angles(2);
  const Term first = f("Sub", {f("Mul", {c, a}), f("Mul", {s, b})});
  const Term second = f("Add", {f("Mul", {s, a}), f("Mul", {c, b})});
  const Ints pair = {batch, length, heads, half, 1};
  Term y = interleaved ? f("Concat", {f.reshape(first, pair), f.reshape(second, pair)}, {{"axis", int64_t{-1}}})
                       : f("Concat", {first, second}, {{"axis", int64_t{-1}}});
  if (interleaved) y = f.reshape(y, {batch, length, heads, turned});
  if (turned < width) y = f("Concat", {y, f.slice(in, 3, turned, width)}, {{"axis", int64_t{-1}}});
  f.give(split ? f.reshape(y, x->dims) : f.transpose(y, {0, 2, 1, 3}));
  f.run();
}

// Convolves the past (k - 1 columns) and x [B, C, L] with one kernel of size k per channel. With an activation the
// result y becomes y sigmoid(y). The last k - 1 columns of past and x are the next past.
void causal_conv(Import& import, const Source& source) {
  const OperandPtr &x = source.operand(0), &w = source.operand(1);
  if (x->rank() != 3 || w->rank() != 3) source.malformed("its operands do not have three axes");
  const int64_t channels = x->dims[1], past = w->dims[2] - 1;
  const std::string activation = source.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    source.malformed("activation is " + activation);
  Formula f(import, source);
  Term in = f.input(0);
  if (past > 0) {
    const Term before = source.given(3) ? f.input(3) : f.filled({x->dims[0], channels, past}, 0);
    in = f("Concat", {before, in}, {{"axis", int64_t{2}}});
  } else if (source.wants(1)) {
    source.refuse("gives a past without elements");
  }
  std::vector<Term> operands = {in, f.input(1)};
  if (source.given(2)) operands.push_back(f.input(2));
  const Term y = f("Conv", operands, {{"group", channels}});
  f.give(activation == "none" ? y : f("Mul", {y, f("Sigmoid", {y})}));
  if (past > 0) f.give(f.slice(in, 2, x->dims[2], x->dims[2] + past));
  f.run();
}

constexpr OperatorImporter kAttentionImporters[] = {
    {"Attention", attention}, {"RotaryEmbedding", rotary_embedding}, {"CausalConvWithState", causal_conv}};

}  // namespace

std::span<const OperatorImporter> attention_importers() { return kAttentionImporters; }

}  // namespace nacre::tools::onnx_import
