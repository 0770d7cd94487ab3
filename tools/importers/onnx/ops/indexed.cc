// Imports Gather, GatherND and scatters by indices that are computed at run time. scatter.cc has scatters without a
// reduction that put a few numbers, or rows of real numbers, in their places.
//
//   Gather            y[i.., j.., k..] = x[i.., ids[j..], k..]       by the op embedding, with that axis moved first
//   GatherND          a Gather of rows from x as a table; a tuple of indices becomes a row number
//   ScatterND         y = x + H^T u,  H [updates, places]            reduction add
//   ScatterElements   y[i, n] = x[i, n] + sum_j u[i, j] H[i, j, n]   reduction add; n, j along the axis, i the others
//                     Other reductions take the max, min or product over the j with H[i, j, n] = 1, then with x[i, n].
//                     Without a reduction the max over these j replaces x[i, n] if there is such a j. With one update
//                     the max is this update. ONNX leaves open what several updates of a place give.
//
// H has a 1 for each update at its place, else 0. Its rows are rows of the n x n identity matrix, taken at the
// indices. A scatter along an axis of n places therefore stores n^2 numbers. An index may count from the end. An index
// outside its axis is refused at run time.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

void need_indices(const Source& source, const Operand& ids) {
  if (ids.type != ElementType::kInt32 && ids.type != ElementType::kInt64)
    source.malformed("its indices are no integers");
}

Ints joined_dims(Ints dims, const Ints& more) {
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

// Returns x as a table [entries, width].
ValueId table_value(Import& import, const OperandPtr& x, int64_t entries, int64_t width) {
  if (!x->constant) return import.reshaped(import.plain(x), {entries, width}, x->name + "/table");
  if (x->rank() == 2) return import.plain(x);
  Value matrix = reshaped(decoded(*x->constant), {entries, width});
  matrix.name = x->name;
  return import.parameters().parameter(x, {Move::reshape({entries, width})}, std::move(matrix));
}

void gather_by_embedding(Import& import, const Source& source) {
  const OperandPtr &x = source.operand(0), &ids = source.operand(1);
  const int64_t entries = x->dims[0], width = product_of(x->dims, 1, x->dims.size());
  if (entries == 0 || width == 0) source.refuse("gives a tensor without elements");
  Node node = import.step(Op::kEmbedding);
  set_integer(node, "negative", 1);
  ValueId list = import.plain(ids);
  if (ids->rank() == kMaxRank)  // the rows read would have 9 axes
    list = import.reshaped(list, {product_of(ids->dims, 0, ids->dims.size())}, ids->name + "/list");
  node.inputs = {table_value(import, x, entries, width), list};
  const ValueId y = import.append(std::move(node), import.output_name());
  import.give_plain(0, import.reshaped(y, joined_dims(ids->dims, {x->dims.begin() + 1, x->dims.end()}),
                                       import.output_name() + "/shape"));
}

// Moves the axis to the front, gathers along it, and moves the gathered axes back to the place of the axis.
void gather_along(Import& import, const Source& source, int axis) {
  const int rank = source.operand(0)->rank(), rows = source.operand(1)->rank();
  Ints first = {axis}, back(size_t(axis), 0);
  for (int i = 0; i < rank; ++i)
    if (i != axis) first.push_back(i);
  std::iota(back.begin(), back.end(), int64_t{rows});
  for (int i = 0; i < rows; ++i) back.push_back(i);
  for (int i = rows + axis; i < rows + rank - 1; ++i) back.push_back(i);
  Formula f(import, source);
  const Term y = f("Gather", {f.transpose(f.input(0), first), f.input(1)}, {{"axis", int64_t{0}}});
  f.give(f.transpose(y, back));
  f.run();
}

// Returns the identity matrix [n, n]: row i has a 1 at column i, else 0.
Term identity_of(Formula& f, const Source& source, int64_t n) {
  constexpr int64_t kMostPlaces = 4096;  // 64 MiB
  if (n > kMostPlaces)
    source.refuse("adds at places that are computed at run time, of more than 4,096", "store the indices in the file");
  std::vector<float> numbers(size_t(n * n), 0);
  for (int64_t i = 0; i < n; ++i) numbers[size_t(i * (n + 1))] = 1;
  return f.numbers({n, n}, numbers);
}

Term rows_at(Formula& f, const Source& source, const Term& ids, int64_t n) {
  return f("Gather", {identity_of(f, source, n), ids}, {{"axis", int64_t{0}}});
}

// The operators of a reduction: of_updates combines the updates of a place, with_x combines the result with x.
// `nothing` is the number that changes no result; it replaces the updates of other places.
struct ScatterReduction {
  const char *name, *of_updates, *with_x;  // with_x is null if x is replaced
  double nothing;
};
constexpr double kBeyondAll = std::numeric_limits<double>::infinity();
constexpr ScatterReduction kScatterReductions[] = {{"none", "ReduceMax", nullptr, -kBeyondAll},
                                                   {"add", "ReduceSum", "Add", 0},
                                                   {"mul", "ReduceProd", "Mul", 1},
                                                   {"max", "ReduceMax", "Max", -kBeyondAll},
                                                   {"min", "ReduceMin", "Min", kBeyondAll}};

const ScatterReduction& reduction_of(const Source& source) {
  const std::string name = source.text("reduction", "none");
  const auto* found = std::ranges::find(kScatterReductions, name, &ScatterReduction::name);
  if (found == std::end(kScatterReductions)) source.malformed("reduction is " + name);
  if (source.operand(2)->type != source.operand(0)->type) source.malformed("its updates have another type");
  return *found;
}

bool adds_reals(const Source& source) {
  return source.text("reduction", "none") == "add" && source.operand(0)->type == ElementType::kFloat32;
}

Term nothing_of(Formula& f, const ScatterReduction& reduction, ElementType type) {
  if (type == ElementType::kFloat32) return f.number(float(reduction.nothing));
  const bool narrow = type == ElementType::kInt32;
  if (reduction.nothing < 0) return f.whole(type, {}, {narrow ? INT32_MIN : INT64_MIN});
  if (reduction.nothing > 1) return f.whole(type, {}, {narrow ? INT32_MAX : INT64_MAX});
  return f.whole(type, {}, {int64_t(reduction.nothing)});
}

// Returns x after the updates, with the dims of `hits` without `axis`. hits has a 1 where an update along `axis` hits.
Term with_updates(Formula& f, const Source& source, const Term& x, const Term& hits, const Term& updates,
                  int64_t axis) {
  const ScatterReduction& reduction = reduction_of(source);
  const Term nothing = nothing_of(f, reduction, source.operand(0)->type);
  const Term here = f("Where", {f("Greater", {hits, f.number(0)}), updates, nothing});
  const Term made = f.reduce(reduction.of_updates, here, {axis}, false);
  if (reduction.with_x != nullptr) return f(reduction.with_x, {x, made});
  const Term any = f("Greater", {f.reduce("ReduceMax", hits, {axis}, false), f.number(0)});
  return f("Where", {any, made, x});
}

}  // namespace

void gather_at_run_time(Import& import, const Source& source) {
  const OperandPtr &x = source.operand(0), &ids = source.operand(1);
  if (x->rank() == 0) source.malformed("its input has no axis");
  need_indices(source, *ids);
  if (gather_codes(import, source)) return;
  if (x->type != ElementType::kFloat32)
    source.refuse("gathers " + x->name + ", which is no real numbers, by indices that are computed at run time");
  const int axis = source.axis(source.integer("axis", 0), x->rank());
  if (axis == 0) return gather_by_embedding(import, source);
  gather_along(import, source, axis);
}

// Reads x [n_1, .., n_k, ..] as a table of n_1 .. n_k rows. A tuple i_1 .. i_k names row (i_1 n_2 + i_2) n_3 + i_3 ..,
// with i + n for a negative i. If k > 1 and an i is outside its axis, the row number is beyond the table.
void gather_tuples_at_run_time(Import& import, const Source& source) {
  const Ints &dims = source.operand(0)->dims, &ids = source.operand(1)->dims;
  need_indices(source, *source.operand(1));
  if (source.integer("batch_dims", 0) != 0)
    source.refuse("its indices are computed at run time, and it has batch_dims", "export with Gather, or store them");
  if (ids.empty() || ids.back() < 1 || ids.back() > int64_t(dims.size()))
    source.malformed("its indices have more numbers than its input has axes");
  const auto k = size_t(ids.back());
  const ElementType type = source.operand(1)->type;
  const Ints tuples(ids.begin(), ids.end() - 1), row(dims.begin() + ids.back(), dims.end());
  Formula f(import, source);
  const auto number = [&](int64_t value) { return f.whole(type, {}, {value}); };
  const int64_t rows = product_of(dims, 0, k);
  if (rows > INT32_MAX / ids.back()) source.refuse("has too many rows to count them");
  Term place;
  for (size_t i = 0; i < k; ++i) {
    Term id = f.reshape(f.slice(f.input(1), int64_t(tuples.size()), int64_t(i), int64_t(i) + 1), tuples);
    if (k > 1) {
      id = f("Where", {f("Less", {id, number(0)}), f("Add", {id, number(dims[i])}), id});
      id = f("Where", {f("Less", {id, number(0)}), number(rows), id});
      const Term first = f("Mul", {id, number(product_of(dims, i + 1, k))});
      id = f("Where", {f("Less", {id, number(dims[i])}), first, number(rows)});
    }
    place = i == 0 ? id : f("Add", {place, id});
  }
  const Term table = f.reshape(f.input(0), joined_dims({rows}, row));
  f.give(f("Gather", {table, place}, {{"axis", int64_t{0}}}));
  f.run();
}

// Makes H for u tuples of k indices. A tuple's row of H is the product of its indices' rows, [u, n_1, 1] [u, 1, n_2] ..
void scatter_rows_at_run_time(Import& import, const Source& source) {
  const Ints &dims = source.operand(0)->dims, &ids = source.operand(1)->dims;
  reduction_of(source);
  need_indices(source, *source.operand(1));
  if (ids.empty() || ids.back() < 1 || ids.back() > int64_t(dims.size()))
    source.malformed("its indices have more numbers than its input has axes");
  const auto k = size_t(ids.back());
  const int64_t updates = product_of(ids, 0, ids.size() - 1), width = product_of(dims, k, dims.size());
  if (product_of(source.operand(2)->dims, 0, source.operand(2)->dims.size()) != updates * width)
    source.malformed("its updates do not fit its indices");
  if (updates * width == 0) return import.give(0, source.operand(0));
  Formula f(import, source);
  const Term numbers = f.reshape(f.input(1), {updates, int64_t(k)});
  Term hits;
  int64_t places = 1;
  for (size_t i = 0; i < k; ++i) {
    const Term column = f.reshape(f.slice(numbers, 1, int64_t(i), int64_t(i) + 1), {updates});
    const Term rows = rows_at(f, source, column, dims[i]);
    if (i > 0) hits = f("Mul", {f.reshape(hits, {updates, places, 1}), f.reshape(rows, {updates, 1, dims[i]})});
    else hits = rows;
    places *= dims[i];
  }
  if (adds_reals(source)) {
    const Term sums =
        f("MatMul", {f.transpose(f.reshape(hits, {updates, places}), {1, 0}), f.reshape(f.input(2), {updates, width})});
    f.give(f("Add", {f.input(0), f.reshape(sums, dims)}));
    return f.run();
  }
  const Term x = f.reshape(f.input(0), {places, width});
  hits = f.reshape(hits, {updates, places, 1});
  f.give(f.reshape(with_updates(f, source, x, hits, f.reshape(f.input(2), {updates, 1, width}), 0), dims));
  f.run();
}

// Scatters with the axis moved last and the other axes joined: x [others, n], indices and updates [others, j].
void scatter_elements_at_run_time(Import& import, const Source& source) {
  const Ints &dims = source.operand(0)->dims, &ids = source.operand(1)->dims;
  reduction_of(source);
  need_indices(source, *source.operand(1));
  const auto axis = size_t(source.axis(source.integer("axis", 0), int(dims.size())));
  Ints like = ids, last, back(dims.size(), 0);
  if (ids.size() != dims.size() || source.operand(2)->dims != ids)
    source.malformed("its operands do not fit each other");
  like[axis] = dims[axis];
  if (like != dims) source.refuse("its indices, computed at run time, are fewer than its elements");
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != axis) last.push_back(int64_t(i));
  last.push_back(int64_t(axis));
  for (size_t i = 0; i < last.size(); ++i) back[size_t(last[i])] = int64_t(i);
  const int64_t n = dims[axis], j = ids[axis], others = product_of(dims, 0, dims.size()) / std::max<int64_t>(n, 1);
  if (n * j * others == 0) return import.give(0, source.operand(0));
  Formula f(import, source);
  const Term hits = rows_at(f, source, f.reshape(f.transpose(f.input(1), last), {others, j}), n);
  const Term updates = f.transpose(f.input(2), last);
  Ints turned;
  for (const int64_t from : last) turned.push_back(dims[size_t(from)]);
  if (adds_reals(source)) {
    const Term sums = f("MatMul", {f.reshape(updates, {others, 1, j}), hits});
    f.give(f("Add", {f.input(0), f.transpose(f.reshape(sums, turned), back)}));
    return f.run();
  }
  const Term x = f.reshape(f.transpose(f.input(0), last), {others, n});
  const Term y = with_updates(f, source, x, hits, f.reshape(updates, {others, j, 1}), 1);
  f.give(f.transpose(f.reshape(y, turned), back));
  f.run();
}

}  // namespace nacre::tools::onnx_import
