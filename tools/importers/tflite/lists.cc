// Converts TensorFlow's lists of tensors, which are custom operators. Its converter leaves them if the batch of a
// recurrence is open (SELECT_TF_OPS). A list is rows of values (rows.cc). A stack has zeros for items that are not set.
//
//   TensorListFromTensor   the items are x[0], x[1], ..         TensorListReserve   n items that are not set
//   TensorListGetItem      item i                              TensorListSetItem   item i becomes x
//   TensorListStack        y[i] = item i                       TensorListLength    n
#include <algorithm>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

constexpr int64_t kMostItems = 1 << 20;

int64_t index_of(Importer& importer, const Operation& op, size_t i, int64_t items) {
  const std::vector<int64_t> index = importer.integers(op, i);
  if (index.size() != 1 || index[0] < 0 || index[0] >= items) importer.bad(op, "an index that is none of its list");
  return index[0];
}

void list_of_tensor(Importer& importer, Operation& op) {
  const std::optional<Rows> x = importer.calls().rows_of(op, 0);
  if (!x) importer.bad(op, "a list of what has no axis");
  importer.calls().define_rows(op, *x);
}

void list_of_items(Importer& importer, Operation& op) {
  const std::vector<int64_t> shape = importer.integers(op, 0), count = importer.integers(op, 1);
  if (count.size() != 1 || count[0] < 0 || count[0] > kMostItems) importer.unsupported(op, "a list of that many items");
  Rows rows{.runs = {}, .dims = {count[0]}};
  for (const int64_t d : shape) rows.dims.push_back(std::max<int64_t>(d, 1));  // -1 is the size of the item that is set
  if (count[0] > 0) rows.runs.push_back({kNone, 0, count[0]});
  importer.calls().define_rows(op, std::move(rows));
}

Rows list_input(Importer& importer, const Operation& op) {
  std::optional<Rows> list = importer.calls().rows_of(op, 0);
  if (!list || list->dims.empty()) importer.bad(op, "its list is none");
  return *list;
}

void get_item(Importer& importer, Operation& op) {
  const Rows list = list_input(importer, op);
  Rows item = none_like(list);
  append(item, list, index_of(importer, op, 1, list.dims[0]), 1);
  const Run run = item.runs.empty() ? Run{kNone, 0, 0} : item.runs[0];
  if (run.of == kNone) importer.unsupported(op, "an item that nothing has set");
  const ValueId row = importer.calls().cut_rows(op, run);
  importer.emit_reshape(op, row, {list.dims.begin() + 1, list.dims.end()}, importer.output(op));
}

void set_item(Importer& importer, Operation& op) {
  Rows list = list_input(importer, op);
  const int64_t i = index_of(importer, op, 1, list.dims[0]);
  const ValueId x = importer.input(op, 2);
  std::vector<int64_t> dims = importer.value(x).dims;
  dims.insert(dims.begin(), 1);
  const bool is_new = std::ranges::all_of(list.runs, [](const Run& run) { return run.of == kNone; });
  if (is_new) list.dims = dims, list.dims[0] = 0;
  if (is_new)
    for (const Run& run : list.runs) list.dims[0] += run.count;
  if (!is_same_but_for_rows(list.dims, dims)) importer.bad(op, "an item of another shape than those of its list");
  const ValueId row = importer.between(x, "/item");
  // A layer has the name of a tensor, and the list is no tensor.
  Operation item{.code_name = op.code_name, .name = op.name, .outputs = {op.inputs[2]}};
  importer.emit_reshape(item, x, dims, row);
  Rows all = none_like(list);
  append(all, list, 0, i);
  append(all, {.runs = {{row, 0, 1}}, .dims = dims}, 0, 1);
  append(all, list, i + 1, list.dims[0] - i - 1);
  importer.calls().define_rows(op, std::move(all));
}

void stack(Importer& importer, Operation& op) {
  Rows list = list_input(importer, op);
  for (Run& run : list.runs) {
    if (run.of != kNone) continue;
    std::vector<int64_t> dims = list.dims;
    dims[0] = run.count;
    int64_t elements = 1;
    for (const int64_t d : dims) elements *= d;
    importer.graph().budget.take(uint64_t(elements) * 4, op.name, "a list of zeros", "use a shorter sequence");
    run = {importer.graph().constant(op.name + "/zeros", dims, std::vector<float>(size_t(elements))), 0, run.count};
  }
  importer.calls().define_rows(op, std::move(list));
}

void length(Importer& importer, Operation& op) { importer.define_integers(op, {list_input(importer, op).dims[0]}, {}); }

struct ListOperator {
  const char* name;
  Convert convert;
};
constexpr ListOperator kListOperators[] = {
    {"TensorListFromTensor", &list_of_tensor}, {"TensorListReserve", &list_of_items}, {"TensorListGetItem", &get_item},
    {"TensorListSetItem", &set_item},          {"TensorListStack", &stack},           {"TensorListLength", &length},
};

}  // namespace

bool convert_list(Importer& importer, Operation& op) {
  std::string name = op.code_name;
  for (const std::string prefix : {"CUSTOM ", "Flex"})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  for (const ListOperator& row : kListOperators) {
    if (name != row.name) continue;
    row.convert(importer, op);
    return true;
  }
  return false;
}

}  // namespace nacre::tools::tflite
