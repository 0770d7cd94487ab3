// Imports RNN, TopK and LinearAttention, for which the engine has no op. They are written out round by round.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

constexpr int64_t kMostSteps = 256;  // most time steps of a sequence, and largest k of TopK
constexpr float kFarthest = std::numeric_limits<float>::infinity();

void check_steps(const Source& source, int64_t steps) {
  if (steps < 1) source.refuse("has no steps: its sequence is empty");
  if (steps > kMostSteps)
    source.refuse("takes " + std::to_string(steps) + " steps, which are written out one by one: at most " +
                      std::to_string(kMostSteps),
                  "export it for shorter sequences, or with GRU or LSTM");
}

// Imports RNN: h_t = f(x_t W^T + h_t-1 R^T + b), b the sum of both halves of B.  x [time, batch, in], or [batch, time,
// in] with layout = 1.
class SimpleRecurrence {
 public:
  SimpleRecurrence(Import& import, const Source& source)
      : import_(import), source_(source), f_(import, source), trains_(import.options().train) {}

  void run() {
    read();
    const std::string direction = source_.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      source_.malformed("direction " + direction + " is none");
    std::vector<std::vector<Term>> states;  // states[direction][time step]
    if (direction != "reverse") states.push_back(steps(0, false));
    if (direction != "forward") states.push_back(steps(int64_t(states.size()), true));
    std::vector<Term> all, last;
    for (const std::vector<Term>& of : states) {
      all.push_back(joined(of, {1, 1, batch_, width_}, 0));
      last.push_back(
          f_.reshape(of[states.size() == 2 && &of == &states[1] ? 0 : end_of(direction)], {1, batch_, width_}));
    }
    Term y = all.size() == 1 ? all[0] : f_("Concat", all, {{"axis", int64_t{1}}});
    Term h = last.size() == 1 ? last[0] : f_("Concat", last, {{"axis", int64_t{0}}});
    f_.give(batch_first_ ? f_.transpose(y, {2, 0, 1, 3}) : y);
    f_.give(batch_first_ ? f_.transpose(h, {1, 0, 2}) : h);
    f_.run();
  }

 private:
  enum Input { kX, kW, kR, kB, kLengths, kH0 };

  size_t end_of(const std::string& direction) const { return direction == "reverse" ? 0 : size_t(time_) - 1; }

  void read() {
    const Ints &x = source_.operand(kX)->dims, &w = source_.operand(kW)->dims, &r = source_.operand(kR)->dims;
    batch_first_ = source_.integer("layout", 0) != 0;
    if (x.size() != 3 || w.size() != 3 || r.size() != 3) source_.malformed("its operands do not have three axes");
    time_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    width_ = r[2];
    directions_ = w[0];
    const int64_t wanted = source_.text("direction", "forward") == "bidirectional" ? 2 : 1;
    if (w != Ints{wanted, width_, x[2]} || r != Ints{wanted, width_, width_})
      source_.malformed("its weights do not fit its input");
    if (source_.given(kB) && source_.operand(kB)->dims != Ints{wanted, 2 * width_})
      source_.malformed("its bias does not fit its weights");
    if (source_.given(kH0) &&
        source_.operand(kH0)->dims != (batch_first_ ? Ints{batch_, wanted, width_} : Ints{wanted, batch_, width_}))
      source_.malformed("its initial state does not fit its input");
    if (source_.given(kLengths) && source_.operand(kLengths)->dims != Ints{batch_})
      source_.malformed("its lengths do not fit its batch");
    if (source_.integer("hidden_size", width_) != width_) source_.malformed("its weights do not fit its hidden_size");
    if (source_.given(kLengths))
      for (const int64_t length : source_.constant_integers(kLengths, "its sequence lengths"))
        if (length != time_)
          source_.refuse("has sequences of several lengths", "pad them, and leave sequence_lens out");
    check_steps(source_, time_);
  }

  std::string activation(int64_t direction) const {
    const ::onnx::AttributeProto* names = source_.find("activations");
    const std::string name =
        names != nullptr && names->strings_size() > direction ? names->strings(int(direction)) : "Tanh";
    if (name != "Tanh" && name != "Relu" && name != "Sigmoid")
      source_.refuse("activation " + name + " is not supported");
    return name;
  }

  // Returns W or R of one direction as [in, out].
  Term matrix(int input, int64_t direction) {
    return f_.transpose(f_("Squeeze", {f_.slice(f_.input(input), 0, direction, direction + 1), f_.list({0})}), {1, 0});
  }

  std::vector<Term> steps(int64_t direction, bool reverse) {
    const std::string function = activation(direction);
    const float clip = source_.real("clip", 0);
    const Term x = batch_first_ ? f_.transpose(f_.input(kX), {1, 0, 2}) : f_.input(kX);
    Term projected = f_("MatMul", {x, matrix(kW, direction)});
    if (source_.given(kB)) {
      const Term both = f_.slice(f_.input(kB), 0, direction, direction + 1);
      const Term bias = f_("Add", {f_.slice(both, 1, 0, width_), f_.slice(both, 1, width_, 2 * width_)});
      projected = f_("Add", {projected, f_.reshape(bias, {width_})});
    }
    const Term r = matrix(kR, direction);
    std::vector<Term> states(size_t(time_), "");
    Term h = begins_with_zeros() ? "" : initial(direction);
    for (int64_t step = 0; step < time_; ++step) {
      const int64_t t = reverse ? time_ - 1 - step : step;
      Term sum = f_.reshape(f_.slice(projected, 0, t, t + 1), {batch_, width_});
      if (!h.empty()) sum = f_("Add", {sum, f_("MatMul", {h, r})});
      if (clip > 0) sum = f_("Clip", {sum, f_.number(-clip), f_.number(clip)});
      states[size_t(t)] = h = f_(function.c_str(), {sum});
    }
    return states;
  }

  // Returns whether the first state is omitted. In a network to be trained, a stored state of zeros counts as omitted,
  // because its product with R would be a constant of its own.
  bool begins_with_zeros() const {
    if (!source_.given(kH0)) return true;
    if (!trains_ || !source_.operand(kH0)->constant || import_.parameters().is_variable(source_.operand(kH0)))
      return false;
    const std::vector<float> numbers = reals(*source_.operand(kH0)->constant);
    return std::ranges::all_of(numbers, [](float number) { return number == 0; });
  }

  // Returns the first state of one direction, [batch, width].
  Term initial(int64_t direction) {
    const int64_t axis = batch_first_ ? 1 : 0;
    return f_.reshape(f_.slice(f_.input(kH0), axis, direction, direction + 1), {batch_, width_});
  }

  Term joined(const std::vector<Term>& terms, const Ints& dims, int64_t axis) {
    std::vector<Term> shaped;
    for (const Term& term : terms) shaped.push_back(f_.reshape(term, dims));
    return shaped.size() == 1 ? shaped[0] : f_("Concat", shaped, {{"axis", axis}});
  }

  Import& import_;
  const Source& source_;
  Formula f_;
  const bool trains_;
  bool batch_first_ = false;
  int64_t time_ = 0, batch_ = 0, width_ = 0, directions_ = 0;
};

void rnn(Import& import, const Source& source) { SimpleRecurrence(import, source).run(); }

// Finds the k largest (or smallest) numbers along an axis, one after the other. The first of equal numbers is taken.
// Before the next search a taken number becomes -infinity or the lowest integer (for the smallest: infinity or the
// highest). A number that is left may be -infinity itself (masked scores). So `free` marks the places that are not
// taken.
void top_k(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const Ints ks = source.has("k") ? Ints{source.integer("k", 1)} : source.constant_integers(1, "its k");
  const int64_t k = ks.size() == 1 ? ks[0] : 0, axis = source.axis(source.integer("axis", -1), x->rank());
  const int64_t dim = x->dims[size_t(axis)];
  if (k < 1 || k > dim) source.malformed("its k is below 1, or above the size of its axis");
  check_steps(source, k);
  const bool largest = source.integer("largest", 1) != 0;
  Formula f(import, source);
  Ints of_axis(x->dims.size(), 1);
  of_axis[size_t(axis)] = dim;
  const Term places = f.counted(of_axis), zero = f.number(0);
  const bool narrow = x->type == ElementType::kInt32;
  const int64_t low = narrow ? INT32_MIN : INT64_MIN, high = narrow ? INT32_MAX : INT64_MAX;
  const bool whole = is_whole(x->type);
  const Term taken = whole ? f.whole(x->type, {}, {largest ? low : high}) : f.number(largest ? -kFarthest : kFarthest);
  Term left = f.input(0), free = f.filled(of_axis, 1);
  std::vector<Term> values, indices;
  const Formula::Attributes along = {{"axis", axis}, {"keepdims", int64_t{1}}};
  for (int64_t i = 0; i < k; ++i) {
    values.push_back(f.reduce(largest ? "ReduceMax" : "ReduceMin", left, {axis}));
    if (i == 0) indices.push_back(f(largest ? "ArgMax" : "ArgMin", {left}, along));
    else indices.push_back(f("ArgMax", {f("Where", {f("Equal", {left, values.back()}), free, zero})}, along));
    if (i + 1 == k) break;
    const Term hit = f("Equal", {f.to_real(indices.back()), places});
    left = f("Where", {hit, taken, left});
    free = f("Where", {hit, zero, free});
  }
  f.give(k == 1 ? values[0] : f("Concat", values, {{"axis", axis}}));
  f.give(k == 1 ? indices[0] : f("Concat", indices, {{"axis", axis}}));
  f.run();
}

// Imports LinearAttention: each token changes and reads a state S [B, G, K, V]. H / G heads of q share one of k and v:
//
//   S <- e^g S (gated),   v <- beta (v - S^T k) (delta),   S <- S + k v^T,   y = scale S^T q
class LinearAttention {
 public:
  LinearAttention(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void run() {
    read();
    const Ints row = {batch_, groups_, 1, value_width_};
    Term state = source_.given(kState) ? real(kState) : zeros();
    std::vector<Term> outputs;
    for (int64_t t = 0; t < time_; ++t) {
      if (gated_) state = f_("Mul", {state, f_("Exp", {token(kDecay, t, decay_width_)})});
      const Term k = token(kKey, t, key_width_);  // [B, G, K, 1]
      Term v = f_.reshape(token(kValue, t, value_width_), row);
      if (delta_) {
        const Term found = f_("MatMul", {f_.transpose(k, {0, 1, 3, 2}), state});
        v = f_("Mul", {beta(t), f_("Sub", {v, found})});
      }
      state = f_("Add", {state, f_("Mul", {k, v})});
      const Term q = f_.reshape(at(kQuery, t), {batch_, groups_, heads_ / groups_, key_width_});
      outputs.push_back(f_.reshape(f_("MatMul", {q, state}), {batch_, 1, heads_ * value_width_}));
    }
    const Term y = outputs.size() == 1 ? outputs[0] : f_("Concat", outputs, {{"axis", int64_t{1}}});
    f_.give(given_type(f_("Mul", {y, f_.number(scale_)})));
    f_.give(given_type(state));
    f_.run();
  }

 private:
  enum Input { kQuery, kKey, kValue, kState, kDecay, kBeta };

  void read() {
    const std::string rule = source_.text("update_rule", "gated_delta");
    gated_ = rule == "gated" || rule == "gated_delta";
    delta_ = rule == "delta" || rule == "gated_delta";
    if (!gated_ && !delta_ && rule != "linear") source_.malformed("update_rule is " + rule);
    if (gated_ != source_.given(kDecay) || delta_ != source_.given(kBeta))
      source_.malformed("its decay or its beta does not fit its update_rule");
    heads_ = source_.integer("q_num_heads", 0);
    groups_ = source_.integer("kv_num_heads", 0);
    for (const int input : {kQuery, kKey, kValue})
      if (source_.operand(input)->rank() != 3) source_.malformed("its operands do not have three axes");
    const Ints &q = source_.operand(kQuery)->dims, &k = source_.operand(kKey)->dims, &v = source_.operand(kValue)->dims;
    if (heads_ < 1 || groups_ < 1 || heads_ % groups_ != 0 || q[2] % heads_ != 0 || v[2] % groups_ != 0)
      source_.malformed("its widths are no multiples of its heads");
    batch_ = q[0];
    time_ = q[1];
    key_width_ = q[2] / heads_;
    value_width_ = v[2] / groups_;
    if (k != Ints{batch_, time_, groups_ * key_width_} || v[0] != batch_ || v[1] != time_)
      source_.malformed("its queries, keys and values do not fit each other");
    if (gated_) decay_width_ = last_of(kDecay) / groups_;
    if (gated_ && decay_width_ != 1 && decay_width_ != key_width_) source_.malformed("its decay does not fit its keys");
    const float given = source_.real("scale", 0);
    scale_ = given != 0 ? given : 1 / std::sqrt(float(key_width_));
    check_steps(source_, time_);
  }

  int64_t last_of(int input) const {
    const Ints& dims = source_.operand(input)->dims;
    if (dims.size() != 3 || dims[0] != batch_ || dims[1] != time_)
      source_.malformed("its decay or its beta does not fit");
    return dims[2];
  }

  Term zeros() { return f_.filled({batch_, groups_, key_width_, value_width_}, 0); }

  // Returns whether the operands have another float type than float32. The state is float32 in any case.
  bool narrow() const { return source_.operand(kQuery)->kept != ElementType::kNone; }
  Term real(int input) { return narrow() ? f_.to_real(f_.input(input)) : f_.input(input); }
  Term given_type(const Term& y) { return narrow() ? f_("CastLike", {y, f_.input(kQuery)}) : y; }

  Term at(int input, int64_t t) { return f_.slice(real(input), 1, t, t + 1); }
  // Returns the numbers of `input` for token t as [B, G, width, 1].
  Term token(int input, int64_t t, int64_t width) { return f_.reshape(at(input, t), {batch_, groups_, width, 1}); }
  Term beta(int64_t t) { return f_.reshape(at(kBeta, t), {batch_, last_of(kBeta) == 1 ? 1 : groups_, 1, 1}); }

  const Source& source_;
  Formula f_;
  bool gated_ = false, delta_ = false;
  int64_t batch_ = 0, time_ = 0, heads_ = 0, groups_ = 0, key_width_ = 0, value_width_ = 0, decay_width_ = 0;
  float scale_ = 1;
};

void linear_attention(Import& import, const Source& source) { LinearAttention(import, source).run(); }

constexpr OperatorImporter kUnrolledImporters[] = {
    {"RNN", rnn}, {"TopK", top_k}, {"LinearAttention", linear_attention}};

}  // namespace

std::span<const OperatorImporter> unrolled_importers() { return kUnrolledImporters; }

}  // namespace nacre::tools::onnx_import
