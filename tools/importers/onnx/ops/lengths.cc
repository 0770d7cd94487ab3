// Imports LSTM and GRU over sequences of several lengths, stored or given at run time, as recurrences over whole
// sequences.
//
//   x [time, batch, in]   lengths [batch]   t [time, 1] = 0, 1, ..
//
//   forward   y' = recurrence(x);   y = y' if t < lengths, else 0;   h = sum_t [t = lengths - 1] y'_t
//   reverse   forward on turned(x), and y is turned back:  turned(x)_t = x_(lengths - 1 - t) if t < lengths, else x_t
//
// The recurrence does not give the cell of an LSTM at the end of a sequence. A file that reads this cell is refused.
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

class OfLengths {
 public:
  OfLengths(Import& import, const Source& source)
      : source_(source), f_(import, source), reads_cell_(source.wants(kC)) {}

  void run() {
    read();
    const Term x = f_.input(kX);
    const bool both = direction_ == "bidirectional", reverse = direction_ == "reverse";
    std::vector<Term> ys, hs;
    for (int64_t d = 0; d < (both ? 2 : 1); ++d) {
      const bool turns = reverse || d == 1;
      const std::vector<Term> made = recurrence(turns ? turned(x, width_in_) : x, d);
      const Term y = f_.reshape(made[0], {time_, batch_, width_});
      const Term last = f_("Where", {f_.reshape(is_last_, {time_, batch_, 1}), y, f_.number(0)});
      hs.push_back(f_.reshape(f_.reduce("ReduceSum", last, {0}), {1, batch_, width_}));
      const Term valid = f_("Where", {f_.reshape(is_valid_, {time_, batch_, 1}), y, f_.number(0)});
      ys.push_back(f_.reshape(turns ? turned(valid, width_) : valid, {time_, 1, batch_, width_}));
    }
    f_.give(both ? f_("Concat", ys, {{"axis", int64_t{1}}}) : f_("Identity", ys));
    f_.give(both ? f_("Concat", hs, {{"axis", int64_t{0}}}) : f_("Identity", hs));
    f_.run();
  }

 private:
  enum Input { kX, kW, kR, kB, kLengths, kH0, kC0 };
  static constexpr int kC = 2;  // output of the cell

  Term number(int64_t value) { return f_.whole(ElementType::kInt32, {}, {value}); }

  void read() {
    const Ints &x = source_.operand(kX)->dims, &r = source_.operand(kR)->dims;
    direction_ = source_.text("direction", "forward");
    if (x.size() != 3 || r.size() != 3) source_.malformed("its operands do not have three axes");
    if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional")
      source_.malformed("direction " + direction_ + " is none");
    bool plain = source_.integer("layout", 0) == 0 && source_.integer("input_forget", 0) == 0 && !reads_cell_;
    for (const char* key : {"activations", "activation_alpha", "activation_beta", "clip"}) plain &= !source_.has(key);
    if (!plain)
      source_.refuse("has sequences shorter than its input, and a layout, activations, a clip or a last cell",
                     "pad the sequences, and leave sequence_lens out");
    time_ = x[0], batch_ = x[1], width_in_ = x[2], width_ = r[2];
    if (source_.operand(kLengths)->dims != Ints{batch_}) source_.malformed("its lengths do not fit its batch");
    const int64_t directions = direction_ == "bidirectional" ? 2 : 1;
    for (const int input : {kW, kR, kB, kH0, kC0}) {  // each direction takes one index of axis 0
      const int64_t axis_0 =
          source_.given(input) && source_.operand(input)->rank() > 0 ? source_.operand(input)->dims[0] : 0;
      if (source_.given(input) && axis_0 != directions)
        source_.malformed("input " + std::to_string(input) + " is not for as many directions as it has");
    }
    Ints count;
    for (int64_t t = 0; t < time_; ++t) count.push_back(t);
    const Term steps = f_.whole(ElementType::kInt32, {time_, 1}, count);
    const Term lengths =
        f_("Cast", {f_.reshape(f_.input(kLengths), {1, batch_})}, {{"to", int64_t(::onnx::TensorProto::INT32)}});
    const Term last = f_("Sub", {lengths, number(1)});
    is_valid_ = f_("Less", {steps, lengths});
    is_last_ = f_("Equal", {steps, last});
    // places_ holds rows of x as [time batch, ..]. The row of step s and sequence b is s batch + b.
    Ints sequence;
    for (int64_t b = 0; b < batch_; ++b) sequence.push_back(b);
    const Term step = f_("Where", {is_valid_, f_("Sub", {last, steps}), steps});
    places_ = f_("Add", {f_("Mul", {step, number(batch_)}), f_.whole(ElementType::kInt32, {1, batch_}, sequence)});
  }

  Term turned(const Term& x, int64_t width) {
    return f_("Gather", {f_.reshape(x, {time_ * batch_, width}), places_}, {{"axis", int64_t{0}}});
  }

  // Returns the outputs Y and Y_h of direction d, over the whole of x.
  std::vector<Term> recurrence(const Term& x, int64_t d) {
    std::vector<Term> inputs = {x};
    for (int input = kW; input < int(source_.inputs.size()); ++input) {
      const bool left_out = input == kLengths || !source_.given(input);
      inputs.push_back(left_out ? "" : f_.slice(f_.input(input), 0, d, d + 1));
    }
    Formula::Attributes attributes = {{"hidden_size", width_}};
    if (source_.has("linear_before_reset"))
      attributes.push_back({"linear_before_reset", source_.integer("linear_before_reset", 0)});
    return f_.several(source_.proto.op_type().c_str(), inputs, 2, attributes);
  }

  const Source& source_;
  Formula f_;
  const bool reads_cell_;
  std::string direction_;
  int64_t time_ = 0, batch_ = 0, width_in_ = 0, width_ = 0;
  Term is_valid_, is_last_, places_;  // [time, batch]
};

}  // namespace

bool import_with_lengths(Import& import, const Source& source) {
  constexpr int kLengths = 4;
  if (!source.given(kLengths) || source.operand(0)->rank() != 3) return false;
  const int64_t time = source.operand(0)->dims[source.integer("layout", 0) != 0 ? 1 : 0];
  if (source.operand(kLengths)->constant) {
    bool whole = true;
    for (const int64_t length : source.constant_integers(kLengths, "its sequence lengths")) {
      if (length < 0 || length > time) source.malformed("a sequence is longer than its input");
      whole &= length == time;
    }
    if (whole) return false;
  }
  OfLengths(import, source).run();
  return true;
}

}  // namespace nacre::tools::onnx_import
