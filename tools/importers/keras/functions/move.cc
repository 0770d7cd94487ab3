// Converts functions of keras.ops that move elements: they change shapes, take or join parts, or repeat elements.
#include <algorithm>

#include "tools/graph/operands.h"
#include "tools/importers/keras/functions/functions.h"

namespace nacre::tools::keras {
namespace {

void ops_reshape(Call& call) {
  const ValueId x = only(call);
  const Json* shape = call.find("newshape");
  std::vector<int64_t> dims;
  int64_t known = 1;
  for (size_t i = 0; shape != nullptr && i < shape->size(); ++i) {
    const Json& size = shape->at(i);
    int64_t n = size.is_number() ? size.get<int64_t>() : -1;
    if (i == 0 && (n == -1 || size.is_null())) n = call.dims(x)[0];  // the size of the batch
    dims.push_back(n);
    if (n != -1 && (n < 1 || n > kMostSize || (known *= n) > kElementLimit)) call.bad("a shape out of range");
  }
  for (int64_t& n : dims)
    if (n == -1) n = call.value(x).elements() / std::max<int64_t>(known, 1), known *= n;
  if (dims.empty() || known != call.value(x).elements()) call.bad("a shape of " + dims_text(dims));
  call.outputs = {call.reshape(x, dims)};
}

void ops_transpose(Call& call) {
  const ValueId x = only(call);
  const int rank = call.rank(x);
  std::vector<int> perm;
  for (const int64_t a : call.list("axes")) perm.push_back(call.axis(a, rank));
  for (int i = rank; perm.size() < size_t(rank) && !call.given("axes"); --i) perm.push_back(i - 1);
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (int(perm.size()) != rank || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    call.bad("its axes are no permutation");
  call.outputs = {call.transpose(x, perm)};
}

void ops_swap_axes(Call& call) {
  const ValueId x = only(call);
  std::vector<int> perm;
  for (int i = 0; i < call.rank(x); ++i) perm.push_back(i);
  std::swap(perm[size_t(call.axis(call.integer("axis1", 0), call.rank(x)))],
            perm[size_t(call.axis(call.integer("axis2", 0), call.rank(x)))]);
  call.outputs = {call.transpose(x, perm)};
}

void ops_expand_dims(Call& call) {
  const ValueId x = only(call);
  std::vector<int64_t> dims = call.dims(x), axes;
  const std::vector<int64_t> given = call.list("axis");
  const int rank = int(dims.size() + given.size());
  for (const int64_t a : given) axes.push_back(call.axis(a, rank));
  std::sort(axes.begin(), axes.end());
  for (const int64_t a : axes) dims.insert(dims.begin() + std::min<int64_t>(a, int64_t(dims.size())), 1);
  call.outputs = {call.reshape(x, dims)};
}

void ops_squeeze(Call& call) {
  const ValueId x = only(call);
  const int rank = call.rank(x);
  std::vector<int> axes;
  for (const int64_t a : call.list("axis")) axes.push_back(call.axis(a, rank));
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    const bool leaves = call.given("axis") ? named : i > 0 && call.dims(x)[size_t(i)] == 1;
    if (leaves && call.dims(x)[size_t(i)] != 1) call.bad("an axis that is not 1");
    if (!leaves) dims.push_back(call.dims(x)[size_t(i)]);
  }
  if (dims.empty()) dims = {1};
  call.outputs = {call.reshape(x, dims)};
}

std::vector<ValueId> parts_of(const Call& call, const char* name) {
  std::vector<ValueId> all = tensors_at(call, 0, name);
  if (all.empty()) call.unsupported("such operands");
  bool reals = false;
  for (const ValueId x : all) reals |= call.value(x).type == ElementType::kFloat32;
  for (ValueId& x : all) x = reals ? call.cast(x) : x;
  return all;
}

void ops_concatenate(Call& call) {
  const std::vector<ValueId> all = parts_of(call, "xs");
  call.outputs = {call.concat(all, call.axis(call.integer("axis", 0), call.rank(all[0])))};
}

void ops_stack(Call& call) {
  std::vector<ValueId> all = parts_of(call, "x");
  const int axis = call.axis(call.integer("axis", 0), call.rank(all[0]) + 1);
  for (ValueId& x : all) {
    std::vector<int64_t> dims = call.dims(x);
    dims.insert(dims.begin() + axis, 1);
    x = call.reshape(x, dims);
  }
  call.outputs = {call.concat(all, axis)};
}

void ops_split(Call& call) {
  const ValueId x = only(call);
  const int axis = call.axis(call.integer("axis", 0), call.rank(x));
  const int64_t size = call.dims(x)[size_t(axis)];
  const Json* parts = call.find("indices_or_sections");
  std::vector<int64_t> ends = call.list("indices_or_sections");
  if (parts != nullptr && parts->is_number()) {
    const int64_t count = ends.at(0);
    if (count < 1 || count > 1024 || size % count != 0) call.bad("parts that do not divide its axis");
    ends.clear();
    for (int64_t i = 1; i < count; ++i) ends.push_back(size / count * i);
  }
  ends.push_back(size);
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end <= begin || end > size) call.bad("such parts");
    call.outputs.push_back(call.slice(x, axis, begin, end - begin));
    begin = end;
  }
}

void ops_unstack(Call& call) {
  const ValueId x = only(call);
  const int axis = call.axis(call.integer("axis", 0), call.rank(x));
  std::vector<int64_t> dims = call.dims(x);
  const int64_t size = dims[size_t(axis)];
  if (size > 1024) call.unsupported("more than 1024 parts");
  dims.erase(dims.begin() + axis);
  for (int64_t i = 0; i < size; ++i) call.outputs.push_back(call.reshape(call.slice(x, axis, i, 1), dims));
}

// Converts x[key], for a key of whole numbers, slices, an ellipsis and None.
void ops_get_item(Call& call) {
  ValueId x = operand(call, 0, "x");
  const Json* key = argument(call, 1, "key");
  if (key == nullptr) call.bad("has no key");
  const Json keys = key->is_array() ? *key : Json::array({*key});
  const auto is = [](const Json& json, const char* name) {
    return json.is_object() && json.contains("class_name") && json.at("class_name") == Json(name);
  };
  size_t axes = 0;
  bool open = false;
  for (const Json& each : keys) axes += !each.is_null() && !is(each, "__ellipsis__"), open |= is(each, "__ellipsis__");
  const std::vector<int64_t> from = call.dims(x);
  if (axes > from.size()) call.bad("has too many indices");
  const size_t skipped = from.size() - axes;
  std::vector<int64_t> dims;
  size_t axis = 0;
  const auto keep = [&](size_t count) {
    for (; count > 0; --count) dims.push_back(call.dims(x)[axis++]);
  };
  for (const Json& each : keys) {
    if (each.is_null()) {
      dims.push_back(1);
    } else if (is(each, "__ellipsis__")) {
      keep(skipped);
    } else if (each.is_number_integer()) {
      const int64_t at = each.get<int64_t>(), size = from[axis];
      if (at < -size || at >= size) call.bad("an index out of range");
      x = call.slice(x, int(axis++), at < 0 ? at + size : at, 1);
    } else if (is(each, "__slice__")) {
      const Json& config = each.at("config");
      const auto bound = [&](const char* name, int64_t otherwise) {
        const Json& given = config.at(name);
        return given.is_null() ? otherwise : std::clamp<int64_t>(given.get<int64_t>(), -kMostSize, kMostSize);
      };
      const int64_t size = from[axis], step = bound("step", 1);
      if (step == 0) call.bad("a slice of step 0");
      int64_t begin = bound("start", step > 0 ? 0 : size - 1), end = bound("stop", step > 0 ? size : -size - 1);
      if (begin < 0) begin += size;
      if (end < 0) end += size;
      begin = std::clamp<int64_t>(begin, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
      end = std::clamp<int64_t>(end, -1, size);
      const int64_t count = (end - begin + step + (step > 0 ? -1 : 1)) / step;
      if (count < 1) call.unsupported("a slice of nothing");
      x = call.slice(x, int(axis), begin, count, step);
      keep(1);
    } else {
      call.unsupported("such an index");
    }
  }
  if (!open) keep(skipped);
  if (dims.empty()) dims = {1};
  call.outputs = {call.reshape(x, dims)};
}

void ops_flip(Call& call) {
  ValueId x = only(call);
  for (const int axis : axes_or_all(call, call.rank(x))) {
    const int64_t size = call.dims(x)[size_t(axis)];
    if (size > 1) x = call.slice(x, axis, size - 1, size, -1);
  }
  call.outputs = {x};
}

void ops_pad(Call& call) {
  const ValueId x = call.cast(only(call));
  if (call.text("mode", "constant") != "constant") call.unsupported("mode " + call.text("mode", "constant"));
  const std::vector<int64_t> all = call.list("pad_width");
  std::vector<int64_t> before, after;
  for (size_t i = 0; i < call.dims(x).size(); ++i) {
    const size_t at = all.size() == 2 ? 0 : 2 * i;
    if (all.size() != 1 && at + 1 >= all.size()) call.bad("a pad_width that does not fit its input");
    before.push_back(all[all.size() == 1 ? 0 : at]);
    after.push_back(all[all.size() == 1 ? 0 : at + 1]);
  }
  const Json* value = argument(call, 1, "constant_values");
  call.outputs = {call.pad(x, before, after, value != nullptr && value->is_number() ? value->get<float>() : 0)};
}

// Repeats each axis as a whole: x, x, ..
void ops_tile(Call& call) {
  ValueId x = only(call);
  const std::vector<int64_t> times = call.list("repeats");
  const size_t rank = call.dims(x).size();
  if (times.size() > rank) call.unsupported("more repeats than axes");
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] < 1 || times[i] > 1024) call.unsupported("such repeats");
    x = call.concat(std::vector<ValueId>(size_t(times[i]), x), int(rank - times.size() + i));
  }
  call.outputs = {x};
}

// Repeats every element: x_0, x_0, .., x_1, ..
void ops_repeat(Call& call) {
  const ValueId x = only(call);
  const std::vector<int64_t> times = call.list("repeats");
  if (!call.given("axis") || times.size() != 1) call.unsupported("no axis, or several repeats");
  const int axis = call.axis(call.integer("axis", 0), call.rank(x));
  std::vector<int64_t> dims = call.dims(x), apart = dims;
  apart.insert(apart.begin() + axis + 1, 1);
  if (times[0] < 1 || times[0] > 1024) call.unsupported("such repeats");
  dims[size_t(axis)] *= times[0];
  const std::vector<ValueId> copies(size_t(times[0]), call.reshape(x, apart));
  call.outputs = {call.reshape(call.concat(copies, axis + 1), dims)};
}

constexpr Converter kMoveFunctions[] = {
    {"Reshape", &ops_reshape},    {"Transpose", &ops_transpose},
    {"Swapaxes", &ops_swap_axes}, {"ExpandDims", &ops_expand_dims},
    {"Squeeze", &ops_squeeze},    {"Concatenate", &ops_concatenate},
    {"Stack", &ops_stack},        {"Split", &ops_split},
    {"Unstack", &ops_unstack},    {"GetItem", &ops_get_item},
    {"Flip", &ops_flip},          {"Pad", &ops_pad},
    {"Tile", &ops_tile},          {"Repeat", &ops_repeat},
};

}  // namespace

std::span<const Converter> move_functions() { return kMoveFunctions; }

}  // namespace nacre::tools::keras
