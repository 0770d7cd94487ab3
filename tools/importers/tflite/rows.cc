// Converts the lists of a loop. TensorFlow's converter writes "item i of a list of n tensors becomes x" as
//
//   CONCATENATION(SLICE(list, 0, i), x, SLICE(list, i + 1, n - i - 1))         or DYNAMIC_UPDATE_SLICE(list, x, i)
//
// Each of n turns of the loop would copy all n items, and at both ends a slice is empty. So these operators (slices and
// concatenations only in a graph that is called) are just recorded as rows of values, which a reader joins once.
#include <algorithm>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
// Adds rows begin to begin + size - 1 of `from` after those of `to`.
void append(Rows& to, const Rows& from, int64_t begin, int64_t size) {
  for (const Run& run : from.runs) {
    const int64_t first = std::clamp<int64_t>(begin, 0, run.count),
                  last = std::clamp<int64_t>(begin + size, 0, run.count);
    begin -= run.count;
    if (first >= last) continue;
    const Run cut = {run.of, run.first + first, last - first};
    Run* before = to.runs.empty() ? nullptr : &to.runs.back();
    if (before != nullptr && before->of == cut.of && before->first + before->count == cut.first)
      before->count += cut.count;
    else to.runs.push_back(cut);
  }
  to.dims[0] += size;
}

Rows none_like(const Rows& rows) {
  Rows empty{.runs = {}, .dims = rows.dims};
  empty.dims[0] = 0;
  return empty;
}

bool is_same_but_for_rows(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

namespace {

bool note_slice(Importer& importer, Operation& op) {
  const std::optional<Rows> x = importer.calls().rows_of(op, 0);
  if (!x) return false;
  const std::vector<int64_t> begin = importer.integers(op, 1), size = importer.integers(op, 2);
  if (begin.size() != x->dims.size() || size.size() != x->dims.size()) return false;
  for (size_t i = 1; i < begin.size(); ++i)
    if (begin[i] != 0 || (size[i] != -1 && size[i] != x->dims[i])) return false;
  const int64_t rows = size[0] == -1 ? x->dims[0] - begin[0] : size[0];
  if (begin[0] < 0 || rows < 0 || rows > x->dims[0] - begin[0])
    importer.bad(op, "a slice outside of shape " + dims_text(x->dims));
  Rows cut = none_like(*x);
  append(cut, *x, begin[0], rows);
  importer.calls().define_rows(op, std::move(cut));
  return true;
}

// Returns whether all rows are stored integers. These are shapes and positions, which fold.cc computes instead.
bool is_stored_integers(const Importer& importer, const Rows& rows) {
  return std::all_of(rows.runs.begin(), rows.runs.end(), [&](const Run& run) {
    if (run.of == kNone) return false;
    const Value& v = importer.value(run.of);
    return v.constant() && (v.stored == ElementType::kInt32 || v.stored == ElementType::kInt64);
  });
}

bool note_concatenation(Importer& importer, Operation& op) {
  const auto& options = importer.options<ConcatenationOptions>(op);
  if (options.activation() != Activation::NONE) return false;
  std::optional<Rows> all;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::optional<Rows> x = importer.calls().rows_of(op, i);
    if (!x || importer.axis(op, options.axis(), x->dims.size()) != 0) return false;
    if (!all) all = none_like(*x);
    if (!is_same_but_for_rows(x->dims, all->dims)) importer.bad(op, "its inputs differ in more than their rows");
    append(*all, *x, 0, x->dims[0]);
  }
  if (!all || is_stored_integers(importer, *all)) return false;
  importer.calls().define_rows(op, std::move(*all));
  return true;
}

// Records DYNAMIC_UPDATE_SLICE: x replaces rows of the list from i on. Moves i so that all fit inside, as LiteRT does.
bool note_update(Importer& importer, Operation& op) {
  if (op.has_input(2) && !importer.calls().is_empty(op, 2) && !importer.value(importer.input(op, 2)).constant())
    return false;
  const std::optional<Rows> list = importer.calls().rows_of(op, 0), x = importer.calls().rows_of(op, 1);
  if (!list || !x || !is_same_but_for_rows(list->dims, x->dims) || x->dims[0] > list->dims[0]) return false;
  const std::vector<int64_t> at = importer.integers(op, 2);
  if (at.size() != list->dims.size()) importer.bad(op, "its indices are not one per axis");
  const int64_t i = std::clamp<int64_t>(at[0], 0, list->dims[0] - x->dims[0]), end = i + x->dims[0];
  Rows all = none_like(*list);
  append(all, *list, 0, i);
  append(all, *x, 0, x->dims[0]);
  append(all, *list, end, list->dims[0] - end);
  importer.calls().define_rows(op, std::move(all));
  return true;
}

}  // namespace

bool note_rows(Importer& importer, Operation& op) {
  const bool updates = op.code == BuiltinOperator::DYNAMIC_UPDATE_SLICE;
  if (importer.scope().depth == 0 && !updates) return false;
  if (op.code == BuiltinOperator::SLICE) return note_slice(importer, op);
  if (op.code == BuiltinOperator::CONCATENATION) return note_concatenation(importer, op);
  return updates && note_update(importer, op);
}

bool Calls::is_empty(const Operation& op, size_t i) const {
  const auto found = op.has_input(i) ? scope_.rows.find(op.inputs[i]) : scope_.rows.end();
  return found != scope_.rows.end() && found->second.runs.empty();
}

std::optional<Rows> Calls::rows_of(const Operation& op, size_t i) {
  const bool is_noted = op.has_input(i) && scope_.values[size_t(op.inputs[i])] == kNone;
  if (const auto found = is_noted ? scope_.rows.find(op.inputs[i]) : scope_.rows.end(); found != scope_.rows.end())
    return found->second;
  if (op.has_input(i) && scope_.tensors.is_list(op.inputs[i])) importer_.bad(op, "reads a list before it is written");
  const ValueId x = importer_.input(op, i);
  const std::vector<int64_t> dims = importer_.value(x).dims;
  if (dims.empty()) return std::nullopt;
  return Rows{.runs = {{x, 0, dims[0]}}, .dims = dims};
}

// Makes output 0 these rows. Rows are joined without requantizing, so their codes must be those that the file gives
// output 0.
void Calls::define_rows(const Operation& op, Rows rows) {
  if (!scope_.tensors.is_list(op.outputs[0])) {
    const Value declared = scope_.tensors.value(op.outputs[0]);
    for (const Run& run : rows.runs) check_row(op, declared, run);
  }
  scope_.rows[op.outputs[0]] = std::move(rows);
}

void Calls::check_row(const Operation& op, const Value& declared, const Run& run) const {
  if (run.of == kNone) importer_.bad(op, "a list is read as a tensor");
  check_alike(op, declared, importer_.value(run.of));
}

ValueId Calls::cut_rows(Operation& op, const Run& run) {
  if (run.of == kNone) importer_.bad(op, "a list is read as a tensor");
  if (run.first == 0 && run.count == importer_.value(run.of).dims[0]) return run.of;
  return cut_axis(importer_, op, run.of, 0, {run.first, run.count}, "/rows");
}

ValueId Calls::join_rows(int id) {
  const Rows rows = scope_.rows.at(id);
  Operation op{.code_name = "CONCATENATION", .name = scope_.tensors.name(id), .outputs = {id}};
  if (scope_.tensors.is_list(id)) importer_.bad(op, "a list is read as a tensor");
  if (rows.runs.empty()) importer_.unsupported(op, "a tensor without elements");
  std::vector<ValueId> parts;
  for (const Run& run : rows.runs) parts.push_back(cut_rows(op, run));
  const ValueId first = parts[0];
  parts = in_groups(importer_, op, std::move(parts), 0, first);
  if (parts.size() == 1) return scope_.values[size_t(id)] = parts[0];
  Node join{.op = Op::kConcat, .name = "", .words = {}, .inputs = parts, .outputs = {}};
  set_integer(join, "axis", 0);
  join.outputs = {importer_.output(op)};
  importer_.emit(op, std::move(join));
  return scope_.values[size_t(id)];
}

}  // namespace nacre::tools::tflite
