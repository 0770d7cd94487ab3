// Converts layers that move, repeat or drop elements: Reshape and similar layers, paddings, croppings, dropout.
#include <algorithm>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

void convert_identity(Call& call) { call.outputs = {call.raw_input()}; }

// Makes a dropout node for a Dropout that is to be trained. Else, and for similar layers, the input is the output.
void convert_dropout(Call& call) {
  const float rate = call.real("rate", 0);
  if (!call.importer->trains() || rate == 0) return convert_identity(call);
  if (!(rate > 0 && rate < 1)) call.bad("its rate is outside [0, 1)");
  if (call.class_name != "Dropout") {
    call.note("is left out of training");
    return convert_identity(call);
  }
  Node node = call.step(Op::kDropout, {call.input()});
  set_real(node, "rate", rate);
  call.outputs = {call.emit(std::move(node))};
}

void convert_flatten(Call& call) {
  const ValueId x = call.raw_input();
  call.outputs = {call.reshape(x, {call.dims(x)[0], call.value(x).elements() / call.dims(x)[0]})};
}

void convert_reshape(Call& call) {
  const ValueId x = call.raw_input();
  std::vector<int64_t> target = call.list("target_shape");
  const int64_t batch = call.dims(x)[0], elements = call.value(x).elements() / batch;
  int64_t known = 1, *open = nullptr;
  for (int64_t& d : target) {
    if (d == -1 && open != nullptr) call.bad("two open sizes");
    if (d == -1) {
      open = &d;
    } else if (d < 1 || (known *= d) > elements) {
      call.bad("a shape of " + dims_text(target) + " for " + std::to_string(elements) + " elements");
    }
  }
  if (open != nullptr) *open = elements / known, known *= *open;
  if (known != elements) call.bad("a shape of " + dims_text(target) + " for " + std::to_string(elements) + " elements");
  target.insert(target.begin(), batch);
  call.outputs = {call.reshape(x, target)};
}

void convert_permute(Call& call) {
  const ValueId x = call.raw_input();
  std::vector<int> perm = {0};
  uint32_t seen = 1;
  for (const int64_t axis : call.list("dims")) {
    if (axis < 1 || axis >= call.rank(x) || (seen >> axis & 1) != 0) call.bad("its dims are no permutation");
    seen |= 1u << axis;
    perm.push_back(int(axis));
  }
  if (int(perm.size()) != call.rank(x)) call.bad("its dims are no permutation");
  call.outputs = {call.transpose(x, perm)};
}

void convert_repeat_vector(Call& call) {
  const ValueId x = call.input();
  if (call.rank(x) != 2) call.bad("an input of shape " + dims_text(call.dims(x)));
  const ValueId one = call.reshape(x, {call.dims(x)[0], 1, call.dims(x)[1]});
  call.outputs = {call.repeat(one, {1, call.integer("n", 1), 1})};
}

// Returns [before, after] per spatial axis, from a number, a list of numbers or a list of pairs.
std::vector<int64_t> pairs(const Call& call, const char* key, size_t spatial) {
  std::vector<int64_t> all = call.list(key);
  if (all.size() == 1 || all.empty()) all.assign(2 * spatial, all.empty() ? 1 : all[0]);
  if (spatial > 1 && all.size() == spatial) {
    std::vector<int64_t> both;
    for (const int64_t n : all) both.insert(both.end(), 2, n);
    all = std::move(both);
  }
  if (all.size() != 2 * spatial) call.bad(std::string(key) + " has " + std::to_string(all.size()) + " numbers");
  if (std::any_of(all.begin(), all.end(), [](int64_t n) { return n < 0; })) call.bad(std::string(key) + " is negative");
  return all;
}

template <int kSpatial>
void convert_padding(Call& call) {
  const ValueId x = call.input();
  if (call.rank(x) != kSpatial + 2) call.bad("an input of shape " + dims_text(call.dims(x)));
  const std::vector<int64_t> all = pairs(call, "padding", kSpatial);
  std::vector<int64_t> before(kSpatial + 2, 0), after = before;
  for (size_t i = 0; i < kSpatial; ++i) before[i + 1] = all[2 * i], after[i + 1] = all[2 * i + 1];
  call.outputs = {call.pad(x, before, after)};
}

template <int kSpatial>
void convert_cropping(Call& call) {
  ValueId x = call.input();
  if (call.rank(x) != kSpatial + 2) call.bad("an input of shape " + dims_text(call.dims(x)));
  const std::vector<int64_t> all = pairs(call, "cropping", kSpatial);
  for (int i = 0; i < kSpatial; ++i) {
    const int64_t before = all[size_t(2 * i)], size = call.dims(x)[size_t(i + 1)] - before - all[size_t(2 * i + 1)];
    x = call.slice(x, i + 1, before, size);
  }
  call.outputs = {x};
}

constexpr Converter kMoveRows[] = {
    {"Identity", &convert_identity},
    {"InputLayer", &convert_identity},
    {"ActivityRegularization", &convert_identity},
    {"Dropout", &convert_dropout},
    {"SpatialDropout1D", &convert_dropout},
    {"SpatialDropout2D", &convert_dropout},
    {"SpatialDropout3D", &convert_dropout},
    {"AlphaDropout", &convert_dropout},
    {"GaussianDropout", &convert_dropout},
    {"GaussianNoise", &convert_dropout},
    {"Flatten", &convert_flatten},
    {"Reshape", &convert_reshape},
    {"Permute", &convert_permute},
    {"RepeatVector", &convert_repeat_vector},
    {"ZeroPadding1D", &convert_padding<1>},
    {"ZeroPadding2D", &convert_padding<2>},
    {"ZeroPadding3D", &convert_padding<3>},
    {"Cropping1D", &convert_cropping<1>},
    {"Cropping2D", &convert_cropping<2>},
    {"Cropping3D", &convert_cropping<3>},
};

}  // namespace

std::span<const Converter> move_converters() { return kMoveRows; }

}  // namespace nacre::tools::keras
