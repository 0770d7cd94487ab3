// Writes recurrences out step by step: those with masks or with activations of their own, and SimpleRNN, which has no
// op.
//
//   LSTM       i, f, o = s(a_i), s(a_f), s(a_o)      c' = f c + i g(a_c)     h' = o g(c')       a = x W + b + h R
//   GRU        z, r = s(a_z), s(a_r)                 h' = z h + (1 - z) n    x_n = part n of x W + b
//              reset_after   n = g(x_n + r (h R_n + b_n));   else n = g(x_n + (r h) R_n)
//   SimpleRNN  h' = g(a)
//
// s is recurrent_activation, g is activation, h and c are states. A masked step leaves the states unchanged.
#include <algorithm>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

constexpr int64_t kMostUnrolled = 1024;

std::vector<float> rows_of(const std::vector<float>& matrix, int64_t width, int64_t first, int64_t count) {
  return {matrix.begin() + first * width, matrix.begin() + (first + count) * width};
}

// Returns rows [first, first + count) of the recurrent kernel in the graph's layout [gates h, h].
ValueId recurrent_rows(const Call& call, int64_t width, int64_t all, int64_t first, int64_t count) {
  const std::string form =
      count == all ? "recurrent" : "recurrent " + std::to_string(first) + " " + std::to_string(count);
  return call.variable(1, "recurrent_kernel", form, {count, width}, [=](const auto& numbers) {
    return rows_of(transposed(numbers, width, all), width, first, count);
  });
}

ValueId plus(const Call& call, ValueId a, ValueId b) { return call.emit(Op::kAdd, {a, b}); }
ValueId times(const Call& call, ValueId a, ValueId b) { return call.emit(Op::kMul, {a, b}); }
ValueId gate(const Call& call, ValueId a) { return activated(call, a, "recurrent_activation"); }

// Holds the projected input x [batch, time, gates width]; at() gives one step of it, part() gates of a step.
struct Projected {
  const Call& call;
  ValueId x;
  int64_t width;
  bool from_zeros;  // in training, the first step multiplies no zero state, which would be an extra constant

  bool begins(int64_t t) const { return from_zeros && t == 0; }

  ValueId at(int64_t t) const {
    const std::vector<int64_t> dims = call.dims(x);
    return call.reshape(call.slice(x, 1, t, 1), {dims[0], dims[2]});
  }
  ValueId part(ValueId a, int64_t k, int64_t count = 1) const { return call.slice(a, 1, k * width, count * width); }
};

Step lstm_step(const Call& call, const Projected& in) {
  const ValueId w = recurrent_rows(call, in.width, 4 * in.width, 0, 4 * in.width);
  return [=, &call](int64_t t, const std::vector<ValueId>& states) -> std::vector<ValueId> {
    const ValueId x = in.at(t);
    const ValueId a = in.begins(t) ? x : plus(call, x, call.emit(Op::kDense, {states[0], w}));
    const ValueId kept = times(call, gate(call, in.part(a, 1)), states[1]);
    const ValueId added = times(call, gate(call, in.part(a, 0)), activated(call, in.part(a, 2)));
    const ValueId cell = plus(call, kept, added);
    return {times(call, gate(call, in.part(a, 3)), activated(call, cell)), cell};
  };
}

ValueId mixed(const Call& call, ValueId z, ValueId h, ValueId n) {
  const ValueId rest = call.emit(Op::kSub, {call.number(1), z});
  return plus(call, times(call, z, h), times(call, rest, n));
}

// Returns h' = (1 - z) g(x_n), the GRU's step from h = 0 if it has no bias inside the reset.
std::vector<ValueId> gru_from_zeros(const Call& call, const Projected& in, ValueId x) {
  const ValueId rest = call.emit(Op::kSub, {call.number(1), gate(call, in.part(x, 0))});
  return {times(call, rest, activated(call, in.part(x, 2)))};
}

Step gru_step(const Call& call, const Projected& in, bool reset_after, ValueId inside) {
  const int64_t h = in.width, all = 3 * h;
  if (reset_after) {
    const ValueId w = recurrent_rows(call, h, all, 0, all);
    return [=, &call](int64_t t, const std::vector<ValueId>& states) -> std::vector<ValueId> {
      const ValueId x = in.at(t);
      if (in.begins(t) && inside == kNone) return gru_from_zeros(call, in, x);
      const ValueId q = in.begins(t) ? call.reshape(inside, {1, all}) : call.emit(Op::kDense, {states[0], w, inside});
      const ValueId zr = gate(call, plus(call, in.part(x, 0, 2), in.part(q, 0, 2)));
      const ValueId n = plus(call, in.part(x, 2), times(call, in.part(zr, 1), in.part(q, 2)));
      return {mixed(call, in.part(zr, 0), states[0], activated(call, n))};
    };
  }
  const ValueId w_zr = recurrent_rows(call, h, all, 0, 2 * h), w_n = recurrent_rows(call, h, all, 2 * h, h);
  return [=, &call](int64_t t, const std::vector<ValueId>& states) -> std::vector<ValueId> {
    const ValueId x = in.at(t);
    if (in.begins(t)) return gru_from_zeros(call, in, x);
    const ValueId zr = gate(call, plus(call, in.part(x, 0, 2), call.emit(Op::kDense, {states[0], w_zr})));
    const ValueId reset = times(call, in.part(zr, 1), states[0]);
    const ValueId n = plus(call, in.part(x, 2), call.emit(Op::kDense, {reset, w_n}));
    return {mixed(call, in.part(zr, 0), states[0], activated(call, n))};
  };
}

Step simple_step(const Call& call, const Projected& in) {
  const ValueId w = recurrent_rows(call, in.width, in.width, 0, in.width);
  return [=, &call](int64_t t, const std::vector<ValueId>& states) -> std::vector<ValueId> {
    const ValueId x = in.at(t);
    return {activated(call, in.begins(t) ? x : plus(call, x, call.emit(Op::kDense, {states[0], w})))};
  };
}

// Returns the mask of step t as a condition [batch, 1, ..] of `rank` axes.
ValueId mask_at(const Call& call, ValueId mask, int64_t t, int rank) {
  std::vector<int64_t> dims(size_t(rank), 1);
  dims[0] = call.dims(mask)[0];
  return call.reshape(call.slice(mask, 1, t, 1), dims);
}

ValueId with_time(const Call& call, ValueId y) {
  std::vector<int64_t> dims = call.dims(y);
  dims.insert(dims.begin() + 1, 1);
  return call.reshape(y, dims);
}

}  // namespace

ValueId reversed(const Call& call, ValueId x) {
  const int64_t time = call.dims(x)[1];
  return time == 1 ? x : call.slice(x, 1, time - 1, time, -1);
}

ValueId last_step(const Call& call, ValueId x) {
  std::vector<int64_t> dims = call.dims(x);
  const ValueId last = call.slice(x, 1, dims[1] - 1, 1);
  dims.erase(dims.begin() + 1);
  return call.reshape(last, dims);
}

Sequence unrolled(const Call& call, int64_t time, const Recurrence& r, const Step& step) {
  if (time > kMostUnrolled) call.unsupported("more than 1024 steps, which are written out one by one");
  constexpr int64_t kStepBytes = 4096;  // about what the nodes of a step take
  call.spend(time * kStepBytes / int64_t(sizeof(float)));
  std::vector<ValueId> states = r.states, steps;
  ValueId before = kNone;
  for (int64_t t = 0; t < time; ++t) {
    std::vector<ValueId> next = step(t, states);
    ValueId y = next[0];
    if (r.mask != kNone) {
      const ValueId counts = mask_at(call, r.mask, t, call.rank(y));
      for (size_t i = 0; i < next.size(); ++i) next[i] = call.select(counts, next[i], states[i]);
      const bool zeros = r.zero_masked || before == kNone;  // what a masked step gives: 0, or the output before
      if (!r.zero_masked && !r.begun) y = next[0];
      else y = call.select(counts, y, zeros ? call.number(0) : before);
      before = y;
    }
    steps.push_back(with_time(call, y));
    states = std::move(next);
  }
  const ValueId all = call.concat(steps, 1);
  return {all, last_step(call, all), states};
}

Sequence unrolled_cell(const Call& call, ValueId x, const Recurrence& given) {
  const bool is_lstm = call.class_name.starts_with("LSTM"), is_gru = call.class_name.starts_with("GRU");
  const int64_t in = call.dims(x)[2], width = call.integer("units", 0), rows = (is_lstm ? 4 : is_gru ? 3 : 1) * width;
  const bool reset_after = is_gru && call.flag("reset_after", !call.importer->keras2());
  const bool biased = call.flag("use_bias", true), two = biased && reset_after;
  const auto half = [rows](int64_t first) {
    return [rows, first](const std::vector<float>& b) {
      return std::vector<float>(b.begin() + first, b.begin() + first + rows);
    };
  };
  ValueId bias = kNone, inside = kNone;
  if (two) {
    call.need_dims(2, {2, rows});
    bias = call.variable(2, "bias", "input", {rows}, half(0));
    inside = call.variable(2, "recurrent_bias", "recurrent", {rows}, half(rows));
  } else if (biased) {
    bias = call.variable(2, "bias", "", {rows});
  }
  const bool from_zeros = given.states.empty() && call.importer->options().train;
  const Projected projected = {call, dense(call, x, 0, in, rows, bias), width, from_zeros};
  Recurrence r = given;
  if (r.states.empty())
    r.states.assign(is_lstm ? 2 : 1, call.constant("zeros", {1, width}, std::vector<float>(size_t(width), 0)));
  const Step step = is_lstm  ? lstm_step(call, projected)
                    : is_gru ? gru_step(call, projected, reset_after, inside)
                             : simple_step(call, projected);
  return unrolled(call, call.dims(x)[1], r, step);
}

}  // namespace nacre::tools::keras
