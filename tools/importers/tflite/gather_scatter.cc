// Converts operators that take rows at indices: GATHER, EMBEDDING_LOOKUP, GATHER_ND, REVERSE_SEQUENCE. Also converts
// those that put rows at indices: SCATTER_ND, SEGMENT_SUM, UNSORTED_SEGMENT_SUM and similar ones, SPARSE_TO_DENSE,
// MATRIX_DIAG, MATRIX_SET_DIAG.
//
//   take   y = table[ids]
//   put    y_p = f (a sum, product, ..) of the update_u with target_u = p. Stored targets are put in rounds: round r
//          takes the r-th update of each row p. A row without one gets a number that f ignores. Targets known only at
//          run time are possible for sums, by a matrix product y = [target_u = p] update
#include <algorithm>
#include <limits>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

using Ints = Steps::Ints;

Ints cut_dims(const Ints& dims, size_t first, size_t last) {
  return {dims.begin() + std::ptrdiff_t(first), dims.begin() + std::ptrdiff_t(last)};
}
Ints joined_dims(Ints dims, const Ints& more) {
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

ValueId whole_input(Importer& importer, const Operation& op, size_t i) {
  const ValueId id = importer.input(op, i);
  const ElementType type = importer.value(id).type;
  if (type != ElementType::kInt32 && type != ElementType::kInt64) importer.bad(op, "indices that are no integers");
  return id;
}

// Returns input i as a table of which rows are taken. float32 and codes with a scale stay as they are. Bools become 0
// and 1, stored int32 and int64 of magnitude at most 2^24 float32. Refuses other types.
ValueId table_input(Importer& importer, Operation& op, Steps& s, size_t i) {
  const ValueId x = importer.input(op, i);
  const Value& v = importer.value(x);
  if (v.type == ElementType::kFloat32) return x;
  if (v.type == ElementType::kBool) return s.cast(x, ElementType::kFloat32);
  const auto is_far = [](int64_t number) { return number < -(1 << 24) || number > 1 << 24; };
  if (!s.is_whole(x) || !v.constant() || std::ranges::any_of(integers(v), is_far))
    importer.unsupported(op, "rows of integers that are computed at run time, or over 2^24");
  return s.cast(x, ElementType::kFloat32);
}

// Returns the number that LiteRT leaves where nothing is put: 0, or for codes the number of code 0.
float nothing_of(const Value& v) { return v.quantizer ? v.quantizer->scale[0] * float(-v.quantizer->zero[0]) : 0; }

// Returns x as a table of rows. A stored matrix may have one scale per row.
ValueId as_rows(Importer& importer, const Operation& op, Steps& s, ValueId x, const Ints& dims) {
  const Value& v = importer.value(x);
  if (v.dims == dims || !v.constant()) return s.reshape(x, dims);
  if (v.quantizer && v.quantizer->scale.size() > 1)
    importer.unsupported(op, "a table with several scales that is no matrix");
  Value matrix = v;
  matrix.dims = dims;
  matrix.name += "/rows";
  return importer.graph().add(std::move(matrix));
}

void give_as(Importer& importer, const Operation& op, Steps& s, ValueId y) {
  s.give(s.cast(y, importer.value(importer.output(op)).type));
}

// Gathers x [B.., M.., entries, A..] by ids [B.., I..] to y [B.., M.., I.., A..], with a table [B entries, M A] and
// indices ids + b entries.
void take_along(Importer& importer, Operation& op, int axis, int batch) {
  Steps s(importer, op);
  ValueId x = table_input(importer, op, s, 0), ids = whole_input(importer, op, 1);
  const Ints of_x = s.dims(x), of_ids = s.dims(ids);
  const auto at = size_t(axis), rows = size_t(batch);
  if (rows > of_ids.size() || rows > at || !std::equal(of_ids.begin(), of_ids.begin() + batch, of_x.begin()))
    importer.bad(op, "batches of indices that do not fit its input");
  const int64_t batches = product_of(of_x, 0, rows), middle = product_of(of_x, rows, at), entries = of_x[at],
                after = product_of(of_x, at + 1, of_x.size()), count = product_of(of_ids, rows, of_ids.size());
  if (middle > 1) x = s.transpose(s.reshape(x, {batches, middle, entries, after}), {0, 2, 1, 3});
  const ValueId table = as_rows(importer, op, s, x, {batches * entries, middle * after});
  if (batches > 1) {
    s.ask(batches);
    Ints first;
    for (int64_t b = 0; b < batches; ++b) first.push_back(b * entries);
    ids = s(Op::kAdd, {s.reshape(ids, {batches, count}), s.integers(s.type(ids), {batches, 1}, first)});
  }
  ValueId y = s.rows(table, s.reshape(ids, {batches * count}));
  if (middle > 1) y = s.transpose(s.reshape(y, {batches, count, middle, after}), {0, 2, 1, 3});
  const Ints inner = joined_dims(cut_dims(of_ids, rows, of_ids.size()), cut_dims(of_x, at + 1, of_x.size()));
  give_as(importer, op, s, s.reshape(y, joined_dims(cut_dims(of_x, 0, at), inner)));
}

void convert_gather(Importer& importer, Operation& op) {
  constexpr int64_t kMostSlices = 64;  // most stored indices that become slices
  const auto& options = importer.options<GatherOptions>(op);
  const ValueId x = importer.input(op, 0);
  const Value& ids = importer.value(importer.input(op, 1));
  const int axis = importer.axis(op, options.axis(), importer.value(x).dims.size());
  const int batch = options.batch_dims() < 0 ? options.batch_dims() + int(ids.dims.size()) : options.batch_dims();
  if (batch < 0) importer.bad(op, "batches of indices that do not fit its input");
  if (batch == 0 && ids.constant() && ids.elements() <= kMostSlices) return gather_stored(importer, op, axis);
  take_along(importer, op, axis, batch);
}

// Converts EMBEDDING_LOOKUP, a GATHER whose operands are swapped: the table comes second.
void convert_embedding_lookup(Importer& importer, Operation& op) {
  importer.input(op, 1);  // throws if it is missing
  std::swap(op.inputs[0], op.inputs[size_t{1}]);
  take_along(importer, op, 0, 0);
}

void check_shape(Importer& importer, const Operation& op, const Ints& shape) {
  int64_t elements = 1;
  for (const int64_t d : shape)
    if (d < 1 || d > kMaxSize || (elements *= d) > kMaxSize) importer.unsupported(op, "a shape of " + dims_text(shape));
}

// Returns the indices [rows] of ids [.., k] in the flat first k axes of `dims`. A row of ids is one index.
ValueId flat_places(Importer& importer, Operation& op, Steps& s, ValueId ids, const Ints& dims) {
  const Ints of_ids = s.dims(ids);
  const auto k = of_ids.empty() ? size_t{0} : size_t(of_ids.back());
  if (k < 1 || k > dims.size()) importer.bad(op, "indices of shape " + dims_text(of_ids));
  Ints strides;
  for (size_t i = 0; i < k; ++i) strides.push_back(product_of(dims, i + 1, k));
  const int64_t rows = product_of(of_ids, 0, of_ids.size() - 1);
  const ValueId scaled =
      s(Op::kMul, {s.reshape(ids, {rows, int64_t(k)}), s.integers(s.type(ids), {1, int64_t(k)}, strides)});
  return s.reshape(s.sum(scaled, 1), {rows});
}

void convert_gather_nd(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId x = table_input(importer, op, s, 0), ids = whole_input(importer, op, 1);
  const Ints dims = s.dims(x), of_ids = s.dims(ids);
  const ValueId places = flat_places(importer, op, s, ids, dims);
  const auto k = size_t(of_ids.back());
  const int64_t rows = product_of(dims, 0, k), width = product_of(dims, k, dims.size());
  const ValueId y = s.rows(as_rows(importer, op, s, x, {rows, width}), places);
  const Ints inner = cut_dims(dims, k, dims.size());
  give_as(importer, op, s, s.reshape(y, joined_dims(cut_dims(of_ids, 0, of_ids.size() - 1), inner)));
}

// Reverses the first lengths[b] elements of sequence b: y_bt = x_b,l-1-t for t < l, else x_bt.
void convert_reverse_sequence(Importer& importer, Operation& op) {
  const auto& options = importer.options<ReverseSequenceOptions>(op);
  Steps s(importer, op);
  const ValueId x = importer.real_input(op, 0), lengths = whole_input(importer, op, 1);
  const Ints dims = s.dims(x);
  const int batch = importer.axis(op, options.batch_dim(), dims.size()),
            time = importer.axis(op, options.seq_dim(), dims.size());
  const int64_t b = dims[size_t(batch)], t = dims[size_t(time)];
  if (batch == time || s.dims(lengths) != Ints{b}) importer.bad(op, "lengths of shape " + dims_text(s.dims(lengths)));
  Ints perm = {batch, time}, back(dims.size()), turned, first;
  for (int i = 0; i < int(dims.size()); ++i)
    if (i != batch && i != time) perm.push_back(i);
  for (size_t i = 0; i < perm.size(); ++i) back[size_t(perm[i])] = int64_t(i);
  for (const int64_t axis : perm) turned.push_back(dims[size_t(axis)]);
  s.ask(b);
  for (int64_t i = 0; i < b; ++i) first.push_back(i * t);
  const ElementType type = s.type(lengths);
  const ValueId l = s.reshape(lengths, {b, 1}), at = s.counted(type, {1, t});
  const ValueId last = s(Op::kSub, {l, s.one_like(l, 1)});
  const ValueId inside = s.compare(Compare::kLess, at, l), from_end = s(Op::kSub, {last, at});
  const ValueId place = s(Op::kAdd, {s.select(inside, from_end, at), s.integers(type, {b, 1}, first)});
  const ValueId table = s.reshape(s.transpose(x, perm), {b * t, product_of(turned, 2, turned.size())});
  s.give(s.transpose(s.reshape(s.rows(table, s.reshape(place, {b * t})), turned), back));
}

struct Put {
  BuiltinOperator code;
  float nothing;  // the number that the reduction ignores; y has it where nothing is put
};
constexpr Put kPuts[] = {
    {BuiltinOperator::UNSORTED_SEGMENT_PROD, 1},
    {BuiltinOperator::UNSORTED_SEGMENT_MAX, std::numeric_limits<float>::lowest()},
    {BuiltinOperator::UNSORTED_SEGMENT_MIN, std::numeric_limits<float>::max()},
};

ValueId combined(Steps& s, BuiltinOperator code, ValueId a, ValueId b) {
  if (code == BuiltinOperator::UNSORTED_SEGMENT_MAX) return s.binary(Binary::kMaximum, a, b);
  if (code == BuiltinOperator::UNSORTED_SEGMENT_MIN) return s.binary(Binary::kMinimum, a, b);
  return s(code == BuiltinOperator::UNSORTED_SEGMENT_PROD ? Op::kMul : Op::kAdd, {a, b});
}

// Puts updates [n, width] at the rows `targets` of y [count, width]. A negative target is skipped.
ValueId put_stored(Importer& importer, Operation& op, Steps& s, ValueId updates, const Ints& targets, int64_t count) {
  constexpr size_t kMostRounds = 256;
  const int64_t n = s.dims(updates)[0], width = s.dims(updates)[1];
  std::vector<Ints> rounds;
  s.ask(count);
  Ints filled(static_cast<size_t>(count));
  for (int64_t u = 0; u < n; ++u) {
    const int64_t target = targets[size_t(u)];
    if (target >= count) importer.bad(op, "an index is outside its output");
    if (target < 0) continue;
    const auto round = size_t(filled[size_t(target)]++);
    if (round == kMostRounds) importer.unsupported(op, "more than 256 rows of one place");
    if (round == rounds.size()) {
      s.ask(count);
      rounds.emplace_back(size_t(count), n);
    }
    rounds[round][size_t(target)] = u;
  }
  if (rounds.empty()) rounds.emplace_back(size_t(count), n);
  const auto* found = std::ranges::find(kPuts, op.code, &Put::code);
  const float nothing = found == std::end(kPuts) ? nothing_of(importer.value(updates)) : found->nothing;
  if (rounds.size() > 1 && importer.value(updates).quantizer)
    importer.unsupported(op, "several rows of codes in one place");
  const ValueId all = s.concat({updates, s.filled({1, width}, nothing)}, 0);
  ValueId y = kNone;
  for (const Ints& places : rounds) {
    const ValueId part = s.rows(all, s.integers(ElementType::kInt32, {count}, places));
    y = y == kNone ? part : combined(s, op.code, y, part);
  }
  return y;
}

ValueId put(Importer& importer, Operation& op, Steps& s, ValueId updates, ValueId targets, int64_t count) {
  constexpr int64_t kMostOfProduct = 1 << 24;
  const Value& t = importer.value(targets);
  if (t.constant()) return put_stored(importer, op, s, updates, integers(t), count);
  const int64_t n = s.dims(updates)[0];
  if (std::ranges::find(kPuts, op.code, &Put::code) != std::end(kPuts))
    importer.unsupported(op, "rows at places that are known only at run time");
  if (n * count > kMostOfProduct) importer.unsupported(op, "so many rows at places that are known only at run time");
  const ValueId places = s.reshape(s.counted(t.type, {count}), {count, 1});
  const ValueId hits = s.compare(Compare::kEqual, s.reshape(targets, {1, n}), places);
  return s(Op::kBatchedMatmul, {s.cast(hits, ElementType::kFloat32), updates}, {}, ElementType::kFloat32);
}

void check_width(Importer& importer, const Operation& op, bool fits, const Ints& updates) {
  if (!fits) importer.bad(op, "updates of shape " + dims_text(updates));
}

void convert_scatter_nd(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId ids = whole_input(importer, op, 0),
                updates = with_output_codes(importer, op, table_input(importer, op, s, 1));
  const Ints shape = importer.integers(op, 2), of_updates = s.dims(updates), of_ids = s.dims(ids);
  check_shape(importer, op, shape);
  const ValueId places = flat_places(importer, op, s, ids, shape);
  const auto k = size_t(of_ids.back());
  const int64_t rows = s.dims(places)[0], width = product_of(shape, k, shape.size());
  check_width(importer, op, importer.value(updates).elements() == rows * width, of_updates);
  const ValueId y = put(importer, op, s, s.reshape(updates, {rows, width}), places, product_of(shape, 0, k));
  give_as(importer, op, s, s.reshape(y, shape));
}

// Converts segments: data [n.., width..], ids [n..] to y [count, width..].
void convert_segments(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId data = table_input(importer, op, s, 0), ids = whole_input(importer, op, 1);
  const Ints dims = s.dims(data), of_ids = s.dims(ids);
  if (of_ids.size() > dims.size() || !std::equal(of_ids.begin(), of_ids.end(), dims.begin()))
    importer.bad(op, "indices of shape " + dims_text(of_ids));
  int64_t count = 0;
  if (op.code == BuiltinOperator::SEGMENT_SUM) {
    if (!importer.value(ids).constant()) importer.unsupported(op, "segments that are known only at run time");
    for (const int64_t id : integers(importer.value(ids))) {
      if (id < 0 || id > kMaxSize) importer.bad(op, "an index is outside its output");
      count = std::max(count, id + 1);
    }
  } else if (const Ints given = importer.integers(op, 2); given.size() == 1) {
    count = given[0];
  }
  if (count < 1 || count > kMaxSize) importer.unsupported(op, std::to_string(count) + " segments");
  const int64_t n = product_of(dims, 0, of_ids.size());
  const ValueId rows = s.reshape(data, {n, product_of(dims, of_ids.size(), dims.size())});
  const ValueId y = put(importer, op, s, rows, s.reshape(ids, {n}), count);
  give_as(importer, op, s, s.reshape(y, joined_dims({count}, cut_dims(dims, of_ids.size(), dims.size()))));
}

// Puts values at stored indices, which are a number, a list or [n, rank]. Other elements get a default.
void convert_sparse_to_dense(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId ids = whole_input(importer, op, 0),
                values = with_output_codes(importer, op, table_input(importer, op, s, 2)),
                otherwise = with_output_codes(importer, op, table_input(importer, op, s, 3));
  if (!importer.value(ids).constant()) importer.unsupported(op, "places that are known only at run time");
  const Ints shape = importer.integers(op, 1), of_ids = s.dims(ids);
  check_shape(importer, op, shape);
  const int64_t rows = of_ids.empty() ? 1 : of_ids[0], count = product_of(shape, 0, shape.size());
  if (importer.value(ids).elements() != rows * int64_t(shape.size())) importer.bad(op, "indices that do not fit");
  const Ints targets =
      integers(importer.value(flat_places(importer, op, s, s.reshape(ids, {rows, int64_t(shape.size())}), shape)));
  const int64_t given = importer.value(values).elements();
  if ((given != 1 && given != rows) || importer.value(otherwise).elements() != 1)
    importer.bad(op, "values that do not fit its indices");
  s.ask(count);
  Ints places(size_t(count), given);
  for (size_t u = 0; u < targets.size(); ++u) {
    if (targets[u] < 0 || targets[u] >= count) importer.bad(op, "an index is outside its output");
    places[size_t(targets[u])] = given == 1 ? 0 : int64_t(u);
  }
  const ValueId all = s.concat({s.reshape(values, {given, 1}), s.reshape(otherwise, {1, 1})}, 0);
  give_as(importer, op, s, s.reshape(s.rows(all, s.integers(ElementType::kInt32, {count}, places)), shape));
}

// Gives out x [.., rows, columns] with d on the main diagonal of each matrix.
void set_diagonal(Importer& importer, Operation& op, Steps& s, ValueId d, ValueId x, const Ints& dims) {
  if (dims.size() < 2) importer.bad(op, "its input has no diagonal");
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  Ints beside = s.dims(d), expected = cut_dims(dims, 0, dims.size() - 2);
  expected.push_back(std::min(rows, columns));
  if (beside != expected) importer.bad(op, "a diagonal of shape " + dims_text(beside));
  beside.insert(rows <= columns ? beside.end() : beside.end() - 1, 1);
  if (rows * columns > kMaxSize) importer.unsupported(op, "so large a matrix");
  s.ask(rows * columns);
  Ints is_on, of_mask(dims.size(), 1);
  of_mask[dims.size() - 2] = rows;
  of_mask.back() = columns;
  for (int64_t i = 0; i < rows * columns; ++i) is_on.push_back(i / columns == i % columns);
  s.give(s.select(s.integers(ElementType::kBool, of_mask, is_on), s.reshape(d, beside), x));
}

void convert_matrix_diag(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId d = with_output_codes(importer, op, importer.whole_or_real_input(op, 0));
  Ints dims = s.dims(d);
  if (dims.empty()) importer.bad(op, "its input has no axis");
  dims.push_back(dims.back());
  const ValueId zero = s.is_whole(d) ? s.integers(s.type(d), Ints(dims.size(), 1), {0})
                                     : s.numbers(Ints(dims.size(), 1), {nothing_of(importer.value(d))});
  set_diagonal(importer, op, s, d, zero, dims);
}

void convert_matrix_set_diag(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId x = with_output_codes(importer, op, importer.whole_or_real_input(op, 0)),
                d = with_output_codes(importer, op, importer.whole_or_real_input(op, 1));
  if (s.type(x) != s.type(d)) importer.bad(op, "its operands have several types");
  set_diagonal(importer, op, s, d, x, s.dims(x));
}

}  // namespace

std::span<const Converter> place_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::GATHER, &convert_gather},
      {BuiltinOperator::EMBEDDING_LOOKUP, &convert_embedding_lookup},
      {BuiltinOperator::GATHER_ND, &convert_gather_nd},
      {BuiltinOperator::REVERSE_SEQUENCE, &convert_reverse_sequence},
      {BuiltinOperator::SCATTER_ND, &convert_scatter_nd},
      {BuiltinOperator::SEGMENT_SUM, &convert_segments},
      {BuiltinOperator::UNSORTED_SEGMENT_SUM, &convert_segments},
      {BuiltinOperator::UNSORTED_SEGMENT_PROD, &convert_segments},
      {BuiltinOperator::UNSORTED_SEGMENT_MAX, &convert_segments},
      {BuiltinOperator::UNSORTED_SEGMENT_MIN, &convert_segments},
      {BuiltinOperator::SPARSE_TO_DENSE, &convert_sparse_to_dense},
      {BuiltinOperator::MATRIX_DIAG, &convert_matrix_diag},
      {BuiltinOperator::MATRIX_SET_DIAG, &convert_matrix_set_diag},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
