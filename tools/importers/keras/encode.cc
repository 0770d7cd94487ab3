// Converts layers that code numbers as categories: CategoryEncoding, Discretization, IntegerLookup.
//
//   one_hot     y_ij = 1 where x_i = j, else 0
//   multi_hot   y_j = max_i y_ij, last axis of x     count   y_j = sum_i y_ij or sum_i weight_i y_ij, axis 1 of x
//   bins        the number of boundaries that are not above x
#include <algorithm>

#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

constexpr int64_t kMostCategories = 1 << 20;

ValueId list(const Call& call, const char* label, const std::vector<float>& numbers) {
  call.spend(int64_t(numbers.size()));
  return call.constant(label, {int64_t(numbers.size())}, numbers);
}

ValueId with_last(const Call& call, ValueId x) {
  std::vector<int64_t> dims = call.dims(x);
  dims.push_back(1);
  return call.reshape(x, dims);
}

// Codes whole numbers x [.., n] -> [.., n, categories]: 1 where the category is x, else 0.
ValueId one_hot(const Call& call, ValueId x, int64_t categories) {
  if (categories < 1 || categories > kMostCategories) call.unsupported("so many categories");
  std::vector<float> numbers;
  for (int64_t i = 0; i < categories; ++i) numbers.push_back(float(i));
  return call.cast(call.compare(Compare::kEqual, with_last(call, x), list(call, "categories", numbers)));
}

ValueId encoded(const Call& call, ValueId x, int64_t categories, std::string mode, ValueId weights) {
  if (mode == "binary") mode = "multi_hot";
  const int rank = call.rank(x);
  if (mode == "one_hot") {
    std::vector<int64_t> dims = call.dims(x);
    if (rank > 1 && dims.back() == 1) dims.pop_back();
    return one_hot(call, call.reshape(x, dims), categories);
  }
  ValueId hot = one_hot(call, x, categories);
  if (weights != kNone) hot = call.emit(Op::kMul, {hot, with_last(call, weights)});
  if (mode == "multi_hot") return call.reduce(Reduce::kMax, hot, {rank - 1}, false);
  if (mode != "count") call.unsupported("output_mode " + mode);
  return call.reduce(Reduce::kSum, hot, {rank > 1 ? 1 : 0}, false);
}

void convert_category(Call& call) {
  if (call.flag("sparse", false)) call.unsupported("a sparse output");
  const auto given = call.keyword.find("count_weights");
  const ValueId weights = given != call.keyword.end() ? given->second.at(0)
                          : call.inputs.size() > 1    ? call.inputs[1]
                                                      : kNone;
  call.outputs = {encoded(call, call.input(), call.integer("num_tokens", 0), call.text("output_mode", "multi_hot"),
                          weights == kNone ? kNone : call.cast(weights))};
}

std::vector<float> numbers_in(const Call& call, const char* key) {
  const Json* found = call.find(key);
  std::vector<float> numbers;
  if (found == nullptr || !found->is_array() || found->size() > size_t(kMostCategories))
    call.unsupported(std::string("its ") + key + " is not in its configuration");
  for (const Json& each : *found) numbers.push_back(each.get<float>());
  return numbers;
}

ValueId as_output(const Call& call, ValueId index, int64_t categories, const char* otherwise) {
  const std::string mode = call.text("output_mode", otherwise);
  if (mode != "int") return encoded(call, index, categories, mode, kNone);
  const Json* type = call.find("dtype");
  const bool real = type != nullptr && type->dump().find("float") != std::string::npos;
  return real ? index : call.cast(index, ElementType::kInt32);
}

void convert_discretization(Call& call) {
  if (call.flag("sparse", false)) call.unsupported("a sparse output");
  const std::vector<float> bounds = numbers_in(call, "bin_boundaries");
  const ValueId x = call.input();
  const ValueId reached = call.compare(Compare::kGreaterEqual, with_last(call, x), list(call, "boundaries", bounds));
  const ValueId bin = call.reduce(Reduce::kSum, call.cast(reached), {call.rank(x)}, false);
  call.outputs = {as_output(call, bin, int64_t(bounds.size()) + 1, "int")};
}

// Returns the index of a number in the vocabulary. The indices of the mask and of unknown numbers come first.
//
//   y = sum_j [x = v_j] (j + first) + [x is no v_j and not the mask] oov,   first = masks + 1, oov = first - 1
void convert_integer_lookup(Call& call) {
  const int64_t unknown = call.integer("num_oov_indices", 1);
  if (unknown != 1) call.unsupported("num_oov_indices other than 1");
  if (call.flag("invert", false)) call.unsupported("invert");
  if (const std::string mode = call.text("output_mode", "int");
      mode != "int" && mode != "one_hot" && mode != "multi_hot")
    call.unsupported("output_mode " + mode);
  std::vector<float> vocabulary = numbers_in(call, "vocabulary");
  const bool whole = call.text("output_mode", "int") == "int", masked = whole && call.given("mask_token");
  const float first = float(masked ? 1 : 0) + 1, oov = first - 1;
  std::vector<float> places;
  for (size_t j = 0; j < vocabulary.size(); ++j) places.push_back(float(j) + first - oov);
  if (masked) {
    vocabulary.push_back(call.real("mask_token", 0));
    places.push_back(-oov);
  }
  const ValueId x = call.input();
  const ValueId is = call.cast(call.compare(Compare::kEqual, with_last(call, x), list(call, "vocabulary", vocabulary)));
  const ValueId at = call.emit(Op::kMul, {is, list(call, "places", places)});
  const ValueId index = call.shifted(call.reduce(Reduce::kSum, at, {call.rank(x)}, false), oov);
  call.outputs = {as_output(call, index, int64_t(places.size()) + 1, "int")};
}

constexpr Converter kEncodeRows[] = {
    {"CategoryEncoding", &convert_category},
    {"Discretization", &convert_discretization},
    {"IntegerLookup", &convert_integer_lookup},
};

}  // namespace

std::span<const Converter> encode_converters() { return kEncodeRows; }

}  // namespace nacre::tools::keras
