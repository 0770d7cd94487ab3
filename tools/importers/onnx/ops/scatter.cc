// Imports scatters that replace numbers at run time, such as those that put a token's keys and values in a cache.
//
//   TensorScatter     y[b, .., s, ..] = u[b, .., s - p_b, ..]   if p_b <= s < p_b + L            u of L rows, p [batch]
//   ScatterElements   y[i, p_ij] = u_ij                         the axis last; i the others
//   ScatterND         y[p_j] = u_j                              x as a table whose rows the tuples count
//
// Everywhere else y = x. If several updates have one place, the last one counts. Places are computed in integers, which
// no policy rounds. A place outside of its axis is refused at run time, so a full cache refuses further rows.
#include <algorithm>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

class Put {
 public:
  Put(Import& import, const Source& source, int updates)
      : import_(import), source_(source), f_(import, source), type_(source.operand(kPlaces(updates))->type),
        x_(source.operand(0)->dims), updates_(updates) {
    if (type_ != ElementType::kInt32 && type_ != ElementType::kInt64) source.malformed("its indices are no integers");
    if (source.operand(updates)->type != source.operand(0)->type) source.malformed("its operands have several types");
  }

  void cache();
  void elements();
  void rows();

 private:
  // Returns the index of the input that holds the places. It comes before the updates in ScatterND and ScatterElements,
  // and after them in TensorScatter.
  static int kPlaces(int updates) { return updates == 1 ? 2 : 1; }

  Term number(int64_t value) { return f_.whole(type_, {}, {value}); }

  // Returns the n numbers first, first + 1, .. along `axis` of a tensor of `rank` axes; the other axes have size 1.
  Term count(int64_t n, size_t rank, size_t axis, int64_t first = 0) {
    import_.spend(uint64_t(n) * 8);
    Ints dims(rank, 1), numbers;
    dims[axis] = n;
    for (int64_t i = 0; i < n; ++i) numbers.push_back(first + i);
    return f_.whole(type_, dims, numbers);
  }

  // Returns the places. A place below 0 is replaced by the element of `these`.
  Term below_zero(const Term& places, const Term& these) {
    return f_("Where", {f_("Less", {places, number(0)}), these, places});
  }

  // Returns the places, which must be in [0, n). To each place it adds its element of a table of n zeros. The engine
  // refuses to read outside of the table at run time.
  Term inside(const Term& places, int64_t n) {
    const Term known = below_zero(places, number(n));
    const Term zero = f_("Gather", {f_.filled({n}, 0), known}, {{"axis", int64_t{0}}});
    const int64_t type = type_ == ElementType::kInt32 ? ::onnx::TensorProto::INT32 : ::onnx::TensorProto::INT64;
    return f_("Add", {places, f_("Cast", {zero}, {{"to", type}})});
  }

  // Returns places in [0, n) from places in [-n, n). A place below 0 counts from the end.
  Term from_both_ends(const Term& places, int64_t n) {
    return inside(below_zero(places, f_("Add", {places, number(n)})), n);
  }

  void give(const Term& y) {
    f_.give(f_.reshape(y, x_));
    f_.run();
  }

  Term last_of(const Term& hits, int64_t updates);

  Import& import_;
  const Source& source_;
  Formula f_;
  const ElementType type_;
  const Ints& x_;
  const int updates_;  // index of the operand
};

// Puts L rows of u into a cache x [batch, outer, rows, width]. With d = s - p, modulo rows if the cache is circular,
// row s of the result is row d of u if 0 <= d < L, else row s of x. If L > 1, the rows are looked up in [x; u], where
// the rows of u follow the rows of x.
void Put::cache() {
  const Ints& u = source_.operand(updates_)->dims;
  const auto axis = size_t(source_.axis(source_.integer("axis", -2), int(x_.size())));
  const bool circular = source_.text("mode", "linear") == "circular";
  if (axis == 0 || u.size() != x_.size() || source_.operand(2)->dims != Ints{x_[0]} || u[axis] < 1 ||
      u[axis] > x_[axis])
    source_.malformed("its update or its indices do not fit its cache");
  for (size_t i = 0; i < x_.size(); ++i)
    if (i != axis && u[i] != x_[i]) source_.malformed("its update does not fit its cache");
  const int64_t batch = x_[0], outer = product_of(x_, 1, axis), width = product_of(x_, axis + 1, x_.size());
  const int64_t rows = x_[axis], length = u[axis];
  Term p = inside(f_.reshape(f_.input(2), {batch, 1, 1}), rows);
  if (length > 1 && !circular) p = f_("Sub", {inside(f_("Add", {p, number(length - 1)}), rows), number(length - 1)});
  Term d = f_("Sub", {count(rows, 3, 2), p});
  d = below_zero(d, circular ? f_("Add", {d, number(rows)}) : number(length));
  const Term taken = f_("Less", {d, number(length)});
  const Term x = f_.reshape(f_.input(0), {batch, outer, rows, width});
  const Term update = f_.reshape(f_.input(1), {batch, outer, length, width});
  if (length == 1) return give(f_("Where", {f_.reshape(taken, {batch, 1, rows, 1}), update, x}));
  const int64_t both = rows + length;
  import_.spend(uint64_t(batch * outer) * 8);
  Ints first;
  for (int64_t i = 0; i < batch * outer; ++i) first.push_back(i * both);
  const Term from = f_("Where", {taken, f_("Add", {d, number(rows)}), count(rows, 3, 2)});
  const Term place = f_("Add", {f_.whole(type_, {batch, outer, 1}, first), from});
  const Term table = f_.reshape(f_("Concat", {x, update}, {{"axis", int64_t{2}}}), {batch * outer * both, width});
  give(f_("Gather", {table, place}, {{"axis", int64_t{0}}}));
}

// Imports ScatterElements: puts the updates along the axis one after another, by one Where each.
void Put::elements() {
  constexpr int64_t kMost = 64;
  const Ints &u = source_.operand(updates_)->dims, &places = source_.operand(1)->dims;
  const auto axis = size_t(source_.axis(source_.integer("axis", 0), int(x_.size())));
  Ints like = u;
  if (places != u || u.size() != x_.size()) source_.malformed("its operands do not fit each other");
  like[axis] = x_[axis];
  if (like != x_) source_.refuse("its indices, computed at run time, are fewer than its elements");
  if (u[axis] > kMost) source_.refuse("puts more than 64 numbers at places that are computed at run time");
  if (product_of(u, 0, u.size()) == 0) return import_.give(0, source_.operand(0));
  const Term p = from_both_ends(f_.input(1), x_[axis]), n = count(x_[axis], x_.size(), axis);
  const Term numbers = f_.input(updates_);
  Term y = f_.input(0);
  for (int64_t j = 0; j < u[axis]; ++j) {
    const auto one = [&](const Term& of) { return u[axis] == 1 ? of : f_.slice(of, int64_t(axis), j, j + 1); };
    y = f_("Where", {f_("Equal", {n, one(p)}), one(numbers), y});
  }
  give(y);
}

// Returns for every place 1 + the index of its last update, or 0 if it has none, from hits [updates, places].
Term Put::last_of(const Term& hits, int64_t updates) {
  return f_.reduce("ReduceMax", f_("Where", {hits, count(updates, 2, 0, 1), number(0)}), {0}, false);
}

void Put::rows() {
  constexpr int64_t kMostPairs = int64_t{1} << 24;  // pairs of an update and a place
  const Ints& ids = source_.operand(1)->dims;
  if (ids.empty() || ids.back() < 1 || ids.back() > int64_t(x_.size()))
    source_.malformed("its indices have more numbers than its input has axes");
  const auto k = size_t(ids.back());
  const int64_t updates = product_of(ids, 0, ids.size() - 1), places = product_of(x_, 0, k);
  const int64_t width = product_of(x_, k, x_.size());
  const Ints& u = source_.operand(updates_)->dims;
  if (product_of(u, 0, u.size()) != updates * width) source_.malformed("its updates do not fit its indices");
  if (updates * places * width == 0) return import_.give(0, source_.operand(0));
  if (updates > kMostPairs / places) source_.refuse("puts too many rows at places that are computed at run time");
  const Term tuples = f_.reshape(f_.input(1), {updates, int64_t(k)});
  Term p;  // the table row that a tuple names
  for (size_t i = 0; i < k; ++i) {
    const Term id = from_both_ends(f_.slice(tuples, 1, int64_t(i), int64_t(i) + 1), x_[i]);
    p = i == 0 ? id : f_("Add", {f_("Mul", {p, number(x_[i])}), id});
  }
  const Term x = f_.reshape(f_.input(0), {places, width}), numbers = f_.reshape(f_.input(updates_), {updates, width});
  if (updates == 1) return give(f_("Where", {f_("Equal", {count(places, 2, 0), p}), numbers, x}));
  const Term last = last_of(f_("Equal", {count(places, 2, 1), p}), updates);
  const Term from =
      f_("Where", {f_("Less", {last, number(1)}), count(places, 1, 0), f_("Add", {last, number(places - 1)})});
  give(f_("Gather", {f_("Concat", {x, numbers}, {{"axis", int64_t{0}}}), from}, {{"axis", int64_t{0}}}));
}

}  // namespace

void put_in_cache_at_run_time(Import& import, const Source& source) { Put(import, source, 1).cache(); }
void put_elements_at_run_time(Import& import, const Source& source) { Put(import, source, 2).elements(); }
void put_rows_at_run_time(Import& import, const Source& source) { Put(import, source, 2).rows(); }

}  // namespace nacre::tools::onnx_import
