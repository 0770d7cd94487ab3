// Implements Call: reads the configuration and the operands of one call of a layer, and makes nodes and constants.
#include <algorithm>
#include <cmath>

#include "engine/ops/unary.h"
#include "tools/base/product.h"
#include "tools/importers/keras/settings.h"
#include "tools/importers/shared/ignored_settings.h"

namespace nacre::tools::keras {
namespace {

constexpr size_t kMostParts = 16;

}  // namespace

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (const int64_t d : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

std::vector<float> transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns) {
  std::vector<float> made(matrix.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) made[size_t(c * rows + r)] = matrix[size_t(r * columns + c)];
  return made;
}

void Call::unsupported(const std::string& reason) const {
  throw Error(kUnsupported, importer->name(), path + " (" + class_name + "): " + reason);
}
void Call::bad(const std::string& fact) const {
  throw Error(kBadInput, importer->name(), path + " (" + class_name + "): " + fact);
}
void Call::refuse(const std::string& setting, const std::string& fact) const {
  if (!goes_on_without(importer->options(), setting)) unsupported(fact + "; " + how_to_ignore(setting));
}

const Json* Call::find(const char* key) const {
  read.insert(key);
  if (!config.is_object() || !config.contains(key)) return nullptr;
  const Json& found = config.at(key);
  return found.is_null() ? nullptr : &found;
}

namespace {

int64_t bounded(const Call& call, const char* key, const Json& json) {
  const double number = json.is_number() ? json.get<double>() : NAN;
  if (!(std::abs(number) <= double(kMostSize)) || number != std::floor(number))
    call.bad(std::string(key) + " is no number that a size can be");
  return int64_t(number);
}

}  // namespace

int64_t Call::integer(const char* key, int64_t otherwise) const {
  const Json* found = find(key);
  return found == nullptr ? otherwise : bounded(*this, key, *found);
}
float Call::real(const char* key, float otherwise) const {
  const Json* found = find(key);
  if (found == nullptr) return otherwise;
  const std::optional<double> number =
      number_in(found->is_array() && found->size() == 1 ? found->at(size_t(0)) : *found);
  if (!number) bad("its " + std::string(key) + " (" + short_text(*found) + ") is no number");
  return Json(*number).get<float>();
}
bool Call::flag(const char* key, bool otherwise) const {
  const Json* found = find(key);
  if (found == nullptr) return otherwise;
  const std::optional<bool> flag = flag_in(*found);
  if (!flag) bad("its " + std::string(key) + " (" + short_text(*found) + ") is neither true nor false");
  return *flag;
}
std::string Call::text(const char* key, const std::string& otherwise) const {
  const Json* found = find(key);
  return found == nullptr ? otherwise : found->text();
}
std::vector<int64_t> Call::list(const char* key) const {
  const Json* found = find(key);
  std::vector<int64_t> all;
  if (found == nullptr) return all;
  if (found->is_number()) return {bounded(*this, key, *found)};
  if (found->size() > 64) bad(std::string(key) + " is too long a list");
  for (const Json& element : *found) {
    if (element.is_array()) {
      for (const Json& inner : element) all.push_back(bounded(*this, key, inner));
    } else {
      all.push_back(bounded(*this, key, element));
    }
  }
  return all;
}
std::vector<int64_t> Call::integers(const char* key, size_t count, int64_t otherwise) const {
  std::vector<int64_t> all = list(key);
  if (all.empty()) all = {otherwise};
  if (all.size() == 1) all.resize(count, all[0]);
  if (all.size() != count) bad(std::string(key) + " has " + std::to_string(all.size()) + " numbers");
  return all;
}
bool Call::called_with(const char* key) const {
  if (keyword.contains(key)) return true;
  if (!kwargs.is_object() || !kwargs.contains(key)) return false;
  const Json& found = kwargs.at(key);
  return !found.is_null() && !(found.is_boolean() && !found.get<bool>());
}

Value& Call::value(ValueId id) const { return importer->graph().values[size_t(id)]; }

ValueId Call::raw_input(size_t i) const {
  if (i >= inputs.size()) bad("is called with " + std::to_string(inputs.size()) + " tensors");
  return inputs[i];
}
ValueId Call::input(size_t i) const { return cast(raw_input(i)); }

ValueId Call::cast(ValueId x, ElementType type) const {
  return value(x).type == type ? x : emit(step(Op::kCast, {x}), type);
}

int Call::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) bad("axis " + std::to_string(axis) + " of a tensor of " + std::to_string(rank));
  return int(axis < 0 ? axis + rank : axis);
}

Node Call::step(Op op, std::vector<ValueId> operands) const {
  Node node;
  node.op = op;
  node.name = path;
  node.layer = importer->layer_of(*this);
  node.inputs = std::move(operands);
  return node;
}

ValueId Call::emit(Node node, ElementType type) const {
  Value y;
  y.name = path + "/" + find_rule(node.op)->name;
  y.type = type;
  node.outputs = {importer->graph().add(std::move(y))};
  infer_shapes(importer->graph(), node);
  const ValueId made = node.outputs[0];
  importer->graph().nodes.push_back(std::move(node));
  return made;
}

ValueId Call::binary(uint32_t function, ValueId a, ValueId b) const {
  Node node = step(Op::kBinary, {a, b});
  set_integer(node, "function", int(function));
  return emit(std::move(node));
}
ValueId Call::compare(uint32_t function, ValueId a, ValueId b) const {
  Node node = step(Op::kCompare, {a, b});
  set_integer(node, "function", int(function));
  return emit(std::move(node), ElementType::kBool);
}
ValueId Call::select(ValueId condition, ValueId a, ValueId b) const {
  return emit(step(Op::kSelect, {a, b, condition}), value(a).type);
}
ValueId Call::unary(uint32_t function, ValueId x, float alpha, float gamma) const {
  Node node = step(Op::kUnary, {x});
  set_integer(node, "function", int(function));
  if (alpha != 0) set_real(node, "alpha", alpha);
  if (gamma != 0) set_real(node, "gamma", gamma);
  return emit(std::move(node));
}
ValueId Call::clamp(ValueId x, float low, float high) const {
  Node node = step(Op::kClamp, {x});
  set_integer(node, "clamp", 1);
  set_real(node, "low", low);
  set_real(node, "high", high);
  return emit(std::move(node));
}
ValueId Call::reshape(ValueId x, const std::vector<int64_t>& to) const {
  if (dims(x) == to) return x;
  if (to.size() > size_t(kMaxRank)) unsupported("more than 8 axes");
  Node node = step(Op::kReshape, {x});
  set_integer(node, "rank", int(to.size()));
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] < 1 || to[i] > kMostSize) bad("a shape of " + dims_text(to));
    set_integer(node, "dims", int(to[i]), int(i));
  }
  return emit(std::move(node), value(x).type);
}
ValueId Call::transpose(ValueId x, const std::vector<int>& perm) const {
  if (perm.size() > size_t(kMaxRank)) unsupported("more than 8 axes");
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  Node node = step(Op::kTranspose, {x});
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", perm[i], int(i));
  return emit(std::move(node), value(x).type);
}
ValueId Call::concat(const std::vector<ValueId>& parts, int axis) const {
  if (parts.size() == 1) return parts[0];
  if (parts.size() > kMostParts) {  // a node takes few operands, so join parts first
    std::vector<ValueId> joined;
    for (size_t i = 0; i < parts.size(); i += kMostParts)
      joined.push_back(concat(
          {parts.begin() + std::ptrdiff_t(i), parts.begin() + std::ptrdiff_t(std::min(parts.size(), i + kMostParts))},
          axis));
    return concat(joined, axis);
  }
  Node node = step(Op::kConcat, parts);
  set_integer(node, "axis", axis);
  return emit(std::move(node), value(parts.at(0)).type);
}
ValueId Call::slice(ValueId x, int axis, int64_t begin, int64_t size, int64_t step_by) const {
  const std::vector<int64_t> from = dims(x);
  if (size < 1) bad("nothing is left of " + dims_text(from));
  if (begin == 0 && step_by == 1 && size == from[size_t(axis)]) return x;
  Node node = step(Op::kSlice, {x});
  for (size_t i = 0; i < from.size(); ++i) {
    const bool here = int(i) == axis;
    set_integer(node, "begin", here ? int(begin) : 0, int(i));
    set_integer(node, "size", here ? int(size) : int(from[i]), int(i));
    set_integer(node, "step", here ? int(step_by) : 1, int(i));
  }
  return emit(std::move(node), value(x).type);
}

namespace {

int mask_of(const std::vector<int>& axes) {
  int mask = 0;
  for (const int axis : axes) mask |= 1 << axis;
  return mask;
}

}  // namespace

ValueId Call::mean(ValueId x, const std::vector<int>& axes, bool keep) const {
  Node node = step(Op::kMean, {x});
  set_integer(node, "axes", mask_of(axes));
  set_integer(node, "keep_dims", keep ? 1 : 0);
  return emit(std::move(node));
}
ValueId Call::reduce(uint32_t function, ValueId x, const std::vector<int>& axes, bool keep) const {
  Node node = step(Op::kReduce, {x});
  set_integer(node, "function", int(function));
  set_integer(node, "axes", mask_of(axes));
  set_integer(node, "keep_dims", keep ? 1 : 0);
  return emit(std::move(node));
}

// Multiplies x by ones of shape `times`, which repeats axes of size 1 exactly.
ValueId Call::repeat(ValueId x, const std::vector<int64_t>& times) const {
  int64_t elements = 1;
  for (const int64_t t : times)
    if (t < 1 || (elements *= t) > kMostSize) bad("repeats a tensor to " + dims_text(times));
  if (elements == 1) return x;
  spend(elements);
  return emit(Op::kMul, {x, constant("ones", times, std::vector<float>(size_t(elements), 1))});
}
ValueId Call::scaled(ValueId x, float factor) const {
  return factor == 1 ? x : emit(Op::kMul, {x, constant("factor", {1}, {factor})});
}
ValueId Call::shifted(ValueId x, float term) const {
  return term == 0 ? x : emit(Op::kAdd, {x, constant("term", {1}, {term})});
}
ValueId Call::number(float value) const { return constant("number", {1}, {value}); }
ValueId Call::softmax(ValueId x, int axis) const {
  Node node = step(Op::kSoftmax, {x});
  set_integer(node, "axis", axis);
  set_real(node, "beta", 1);
  return emit(std::move(node));
}
ValueId Call::pad(ValueId x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, float fill) const {
  Node node = step(Op::kPad, {x});
  int64_t all = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] < 0 || after[i] < 0 || before[i] > kMostSize || after[i] > kMostSize) bad("a padding out of range");
    all += before[i] + after[i];
    set_integer(node, "before", int(before[i]), int(i));
    set_integer(node, "after", int(after[i]), int(i));
  }
  if (fill != 0) set_real(node, "value", fill);
  return all == 0 ? x : emit(std::move(node));
}

namespace {

// Appends the numbers of nested lists of sizes dims[axis], dims[axis + 1], .. to `numbers`.
void add_numbers(const Call& call, const Json& json, const std::vector<int64_t>& dims, size_t axis,
                 std::vector<float>& numbers) {
  if (axis == dims.size() && (json.is_number() || json.is_boolean())) {
    return numbers.push_back(json.is_number() ? json.get<float>() : float(json.get<bool>()));
  }
  if (axis == dims.size() || !json.is_array() || int64_t(json.size()) != dims[axis])
    call.bad("an array in its arguments is none");
  for (const Json& each : json) add_numbers(call, each, dims, axis + 1, numbers);
}

}  // namespace

ValueId Call::stored(const Json& array) const {
  std::vector<int64_t> of;
  for (const Json* at = &array; at->is_array(); at = &at->at(size_t(0))) {
    if (at->empty() || of.size() == size_t(kMaxRank)) bad("an array in its arguments is empty or has over 8 axes");
    of.push_back(int64_t(at->size()));
  }
  std::vector<float> numbers;
  add_numbers(*this, array, of, 0, numbers);
  spend(int64_t(numbers.size()));
  if (of.empty()) of = {1};
  return constant("stored", of, numbers);
}

void Call::spend(int64_t elements) const {
  importer->graph().budget.take(uint64_t(product_of({{elements, int64_t{sizeof(float)}}})),
                                importer->name() + ": " + path, "a constant of this layer",
                                "give a network without it");
}

ValueId Call::constant(const std::string& label, std::vector<int64_t> of, const std::vector<float>& numbers) const {
  const ValueId made = importer->graph().constant(path + "/" + label, std::move(of), numbers);
  value(made).fixed = true;
  return made;
}

namespace {

// Returns d if training adds d w to the gradient of variable w of this label, as a penalty says; else nullopt.
std::optional<float> decay_of(const Call& call, size_t i, const std::string& label) {
  static const std::map<std::string, std::string> kOthers = {
      {"recurrent_kernel", "recurrent"}, {"recurrent_bias", "bias"}, {"depthwise_kernel", "depthwise"}};
  const bool pointwise = i == 1 && label == "kernel" && call.class_name.starts_with("SeparableConv");
  const auto other = kOthers.find(label);
  const std::string of = pointwise ? "pointwise" : other == kOthers.end() ? label : other->second;
  const Json* found = call.find((of + "_regularizer").c_str());
  const std::optional<Penalty> penalty =
      found == nullptr || !call.importer->options().train ? std::nullopt : penalty_of(*found);
  if (!penalty || !penalty->decay || goes_on_without(call.importer->options(), penalty->class_name))
    return std::nullopt;
  return penalty->decay;
}

}  // namespace

ValueId Call::variable(size_t i, const std::string& label, const std::string& form, std::vector<int64_t> of,
                       const Arrange& make) const {
  const Hdf5Dataset& stored = weights[i];
  const std::string key = weights.path(i) + "\n" + form + "\n" + dims_text(of);
  const auto found = importer->variables().find(key);
  if (found != importer->variables().end()) return found->second;
  if (of.empty()) of = stored.dims;
  if (of.empty()) of = {1};
  for (const int64_t d : of)
    if (d < 1 || d > kMostSize) bad(label + " is stored with shape " + dims_text(stored.dims));
  std::vector<float> numbers = stored.reals();
  if (make) numbers = make(numbers);
  if (int64_t(numbers.size()) != product_of(of))
    bad(label + " is stored with shape " + dims_text(stored.dims) + ", " + dims_text(of) + " is needed");
  const ValueId made = importer->graph().constant(path + "/" + label, std::move(of), numbers);
  value(made).frozen = frozen;
  value(made).variable = importer->options().train;
  importer->keep_form(weights.path(i), stored.elements(), made);
  if (i == 0 && weights.coded() != nullptr) attach_codes(*this, made, *weights.coded(), make);
  if (const float amax = importer->kernel_amax(weights.path(i)); amax > 0) value(made).amaxes = {amax};
  importer->keep_moments(made, weights.path(i), stored.dims, make);
  if (const std::optional<float> decay = decay_of(*this, i, label)) importer->keep_decay(made, *decay);
  return importer->variables()[key] = made;
}

void Call::need_dims(size_t i, const std::vector<int64_t>& expected) const {
  if (weights[i].dims != expected)
    bad("variable " + weights.path(i) + " has shape " + dims_text(weights[i].dims) + ", " + dims_text(expected) +
        " is needed");
}

Call Call::part(const std::string& of_class, const std::string& of_name, const Json& of_config, Weights of) const {
  Call made;
  made.importer = importer;
  made.class_name = of_class;
  made.name = of_name;
  made.path = path + "/" + of_name;
  made.config = of_config;
  made.weights = std::move(of);
  made.frozen = importer->is_frozen(of_config, frozen, made.path);
  return made;
}

void Call::note(const std::string& what) const {
  importer->graph().log.push_back("import: " + path + " (" + class_name + "): " + what);
}

}  // namespace nacre::tools::keras
