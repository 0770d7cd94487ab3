// Converts Dense, EinsumDense, Embedding and ReversibleEmbedding, which read a stored matrix, and Masking.
//
//   Keras   kernel [in, out], y = x kernel + bias        the graph   dense, w [out, in]
#include <algorithm>

#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "tools/base/product.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

namespace {

Node dense_step(const Call& call, ValueId x, ValueId w) {
  Node node = call.step(Op::kDense, {coded_rows(call, x), w});
  node.x_amax = call.importer->input_amax(call);
  return node;
}

}  // namespace

ValueId dense(const Call& call, ValueId x, size_t kernel, int64_t in, int64_t out, ValueId bias) {
  if (call.weights[kernel].elements() != in * out || call.dims(x).empty() || call.dims(x).back() != in)
    call.bad("an input of shape " + dims_text(call.dims(x)) + " for a kernel of shape " +
             dims_text(call.weights[kernel].dims));
  const ValueId w = call.variable(kernel, "kernel", "dense", {out, in},
                                  [&](const auto& numbers) { return transposed(numbers, in, out); });
  Node node = dense_step(call, x, w);
  if (bias != kNone) node.inputs.push_back(bias);
  return call.emit(std::move(node));
}

namespace {

void convert_dense(Call& call) {
  const ValueId x = call.input();
  const std::vector<int64_t>& kernel = call.weights[0].dims;
  if (kernel.size() != 2) call.bad("a kernel of shape " + dims_text(kernel));
  const int64_t in = kernel[0], out = kernel[1];
  if (call.integer("units", out) != out)
    call.bad("units of " + std::to_string(call.integer("units", out)) + " for a kernel of shape " + dims_text(kernel));
  ValueId bias = kNone;
  if (call.flag("use_bias", true)) {
    call.need_dims(1, {out});
    bias = call.variable(1, "bias");
  }
  call.outputs = {activated(call, dense(call, x, 0, in, out, bias))};
}

// An equation "abc,cde->abde" of one letter per axis, with "..." for any leading or trailing axes of x and y.
struct Equation {
  std::string x, w, y;
};

Equation parse_equation(const Call& call, const std::string& text, int rank) {
  std::string bare;
  for (const char c : text)
    if (c != ' ') bare += c;
  const size_t comma = bare.find(','), arrow = bare.find("->");
  if (comma == bare.npos || arrow == bare.npos || comma > arrow) call.bad("equation " + text + " is none");
  Equation e = {bare.substr(0, comma), bare.substr(comma + 1, arrow - comma - 1), bare.substr(arrow + 2)};
  const size_t dots = e.x.find("...");
  if (dots != e.x.npos) {
    const int open = rank - int(e.x.size() - 3);
    if (open < 0 || open > kMaxRank) call.bad("equation " + text + " for " + std::to_string(rank) + " axes");
    std::string letters;
    for (int i = 0; i < open; ++i) letters += char('0' + i);
    e.x.replace(dots, 3, letters);
    if (e.y.find("...") == e.y.npos) call.bad("equation " + text + " gives out no ...");
    e.y.replace(e.y.find("..."), 3, letters);
  }
  if (int(e.x.size()) != rank) call.bad("equation " + text + " for " + std::to_string(rank) + " axes");
  return e;
}

bool has(const std::string& letters, char c) { return letters.find(c) != letters.npos; }

// Returns the kernel's numbers with its axes in `order`: first those that y has, then those summed over.
std::vector<float> arranged(const std::vector<float>& numbers, const std::vector<int64_t>& dims,
                            const std::vector<size_t>& order) {
  std::vector<int64_t> stride(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) stride[i - 1] = stride[i] * dims[i];
  std::vector<float> made;
  std::vector<int64_t> at(order.size(), 0);
  for (size_t n = 0; n < numbers.size(); ++n) {
    int64_t from = 0;
    for (size_t i = 0; i < order.size(); ++i) from += at[i] * stride[order[i]];
    made.push_back(numbers[size_t(from)]);
    for (size_t i = order.size(); i-- > 0;) {
      if (++at[i] < dims[order[i]]) break;
      at[i] = 0;
    }
  }
  return made;
}

// Adds variable i, a bias over the axes of y (`letters`) that `axes` names, to y.
ValueId einsum_bias(const Call& call, ValueId y, const std::string& letters, const std::string& axes, size_t i) {
  std::vector<int64_t> shape;
  for (size_t k = 0; k < letters.size(); ++k) shape.push_back(has(axes, letters[k]) ? call.dims(y)[k] : 1);
  if (call.weights[i].elements() != product_of(shape)) call.bad("a bias of shape " + dims_text(call.weights[i].dims));
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return call.emit(Op::kAdd, {y, call.variable(i, "bias", "broadcast", shape)});
}

// Returns the sizes of a kernel's axes: as stored, or, if it was packed or decoded, those of x or of the output.
std::vector<int64_t> einsum_kernel(const Call& call, const Equation& e, const std::vector<int64_t>& x) {
  const std::vector<int64_t>& stored = call.weights[0].dims;
  if (stored.size() == e.w.size() && call.weights.coded() == nullptr) return stored;
  std::vector<int64_t> dims, out;
  if (const Json* shape = call.find("output_shape"); shape != nullptr && shape->is_array())
    for (const Json& size : *shape) out.push_back(size.is_number() ? size.get<int64_t>() : 0);
  else out.push_back(call.integer("output_shape", 0));
  for (const char letter : e.w) {
    const size_t in_x = e.x.find(letter), behind = e.y.size() - std::min(e.y.find(letter), e.y.size());
    if (in_x != e.x.npos) dims.push_back(x[in_x]);
    else if (behind >= 1 && behind <= out.size()) dims.push_back(out[out.size() - behind]);
    else call.bad("a kernel of shape " + dims_text(stored));
    if (dims.back() < 1) call.bad("an output of shape " + dims_text(out));
  }
  if (product_of(dims) != call.weights[0].elements()) call.bad("a kernel of shape " + dims_text(stored));
  return dims;
}

}  // namespace

// Converts EinsumDense: a dense node sums over the axes that x and the kernel share. These move to the end of x first,
// and y's axes into their order afterwards.
void convert_einsum_dense(Call& call) {
  ValueId x = call.input();
  const Equation e = parse_equation(call, call.text("equation", ""), call.rank(x));
  const std::vector<int64_t> x_dims = call.dims(x), w_dims = einsum_kernel(call, e, x_dims);
  std::string made, kept, summed, free;
  std::vector<int> to_end;
  std::vector<size_t> order, order_summed;
  std::vector<int64_t> lead, out_dims;
  int64_t in = 1, out = 1;
  for (size_t i = 0; i < e.x.size(); ++i) {
    if (has(e.w, e.x[i])) continue;
    if (!has(e.y, e.x[i])) call.unsupported("its equation sums an axis of the input alone");
    to_end.push_back(int(i));
    lead.push_back(x_dims[i]);
    kept += e.x[i];
  }
  for (size_t i = 0; i < e.w.size(); ++i) {
    const size_t at = e.x.find(e.w[i]);
    if (at != e.x.npos) {
      if (has(e.y, e.w[i])) call.unsupported("its equation has a kernel per place");
      if (w_dims[i] != x_dims[at]) call.bad("an input of shape " + dims_text(x_dims));
      to_end.push_back(int(at));
      order_summed.push_back(i);
      in *= w_dims[i];
      continue;
    }
    if (!has(e.y, e.w[i])) call.unsupported("its equation sums an axis of the kernel alone");
    order.push_back(i);
    out_dims.push_back(w_dims[i]);
    free += e.w[i];
    out *= w_dims[i];
  }
  if (kept.size() + free.size() != e.y.size()) call.bad("its equation gives out an axis of neither");
  order.insert(order.end(), order_summed.begin(), order_summed.end());
  x = call.transpose(x, to_end);
  std::vector<int64_t> rows = lead;
  rows.push_back(in);
  x = call.reshape(x, rows);
  std::string form = "einsum";
  for (const size_t i : order) form += " " + std::to_string(i);
  const ValueId w = call.variable(0, "kernel", form, {out, in},
                                  [&](const auto& numbers) { return arranged(numbers, w_dims, order); });
  Node node = dense_step(call, x, w);
  const std::string bias_axes = call.text("bias_axes", "");
  // If the bias covers all axes that the kernel gives, in their order and last in y, the dense node adds it.
  const bool own = !bias_axes.empty() && bias_axes == free && e.y.ends_with(free);
  if (own) {
    if (call.weights[1].elements() != out) call.bad("a bias of shape " + dims_text(call.weights[1].dims));
    node.inputs.push_back(call.variable(1, "bias", "flat", {out}));
  }
  ValueId y = call.emit(std::move(node));
  std::vector<int64_t> shape = lead;
  shape.insert(shape.end(), out_dims.begin(), out_dims.end());
  y = call.reshape(y, shape);
  made = kept + free;
  std::vector<int> perm;
  for (const char c : e.y) {
    if (!has(made, c)) call.bad("its equation gives out an axis of neither");
    perm.push_back(int(made.find(c)));
  }
  y = call.transpose(y, perm);
  if (!bias_axes.empty() && !own) y = einsum_bias(call, y, e.y, bias_axes, 1);
  call.outputs = {activated(call, y)};
}

namespace {

void convert_embedding(Call& call) {
  ValueId ids = call.raw_input();
  const ElementType type = call.value(ids).type;
  if (type != ElementType::kInt32 && type != ElementType::kInt64) ids = call.cast(ids, ElementType::kInt32);
  if (call.weights[0].dims.size() != 2) call.bad("a table of shape " + dims_text(call.weights[0].dims));
  call.outputs = {call.emit(Op::kEmbedding, {call.variable(0, "embeddings"), ids})};
  if (call.flag("mask_zero", false)) call.importer->masks()[call.outputs[0]] = as_condition(call, ids);
}

// Reads rows of the table. With `reverse`, multiplies by the table, or by a reverse matrix, and gives scores.
void convert_reversible(Call& call) {
  if (!call.called_with("reverse")) return convert_embedding(call);
  const ValueId x = call.input();
  const bool tied = call.flag("tie_weights", true);
  ValueId y = kNone;
  if (tied) {
    if (call.dims(x).back() != call.weights[0].dims.back()) call.bad("an input of shape " + dims_text(call.dims(x)));
    y = call.emit(dense_step(call, x, call.variable(0, "embeddings")));
  } else {
    const size_t kernel = call.weights.coded() != nullptr ? 0 : 1;
    const std::vector<int64_t> dims = call.weights[kernel].dims;
    if (dims.size() != 2) call.bad("a table of shape " + dims_text(dims));
    y = dense(call, x, kernel, dims[0], dims[1], kNone);
  }
  if (call.given("logit_soft_cap")) {
    const float cap = call.real("logit_soft_cap", 1);
    y = call.scaled(call.emit(Op::kTanh, {call.scaled(y, 1 / cap)}), cap);
  }
  call.outputs = {y};
}

// Converts Masking: y = x at steps of which a feature differs from mask_value, else 0. The other steps are masked.
void convert_masking(Call& call) {
  const ValueId x = call.input();
  const float value = call.real("mask_value", 0);
  const ValueId differs = call.cast(call.compare(Compare::kNotEqual, x, call.number(value)));
  const ValueId any = call.reduce(Reduce::kMax, differs, {call.rank(x) - 1}, true);
  call.outputs = {call.emit(Op::kMul, {x, any})};
  std::vector<int64_t> steps = call.dims(any);
  steps.pop_back();
  call.importer->masks()[call.outputs[0]] = call.reshape(as_condition(call, any), steps);
}

constexpr Converter kDenseRows[] = {
    {"Dense", &convert_dense},         {"EinsumDense", &convert_einsum_dense},
    {"Embedding", &convert_embedding}, {"ReversibleEmbedding", &convert_reversible},
    {"Masking", &convert_masking},
};

}  // namespace

std::span<const Converter> dense_converters() { return kDenseRows; }

}  // namespace nacre::tools::keras
