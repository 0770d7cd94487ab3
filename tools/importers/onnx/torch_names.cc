#include "tools/importers/onnx/torch_names.h"

#include <algorithm>
#include <iterator>

namespace nacre::tools::onnx_import {
namespace {

template <size_t n>
bool among(const char* const (&names)[n], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

template <size_t n>
bool has_one_of(const char* const (&parts)[n], const std::string& text) {
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

// Returns the target of a call: "torch.ops.aten.add.Tensor" for "[target=torch.ops.aten.add.Tensor](args = ..".
std::string target_of(const std::string& call) {
  const std::string key = "[target=";
  const size_t found = call.find(key);
  if (found == std::string::npos) return "";
  const size_t first = found + key.size();
  return call.substr(first, std::min(call.find(']', first), call.size()) - first);
}

}  // namespace

std::string without_count(const std::string& name) {
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < name.size() && name[end] == '_' ? name.substr(0, end) : name;
}

bool moves_only(const std::string& result) {
  constexpr const char* kMoves[] = {
      "_to_copy",  "alias",   "clone",  "contiguous",   "detach",  "flatten", "getitem", "movedim",   "narrow",
      "permute",   "reshape", "select", "slice",        "squeeze", "t",       "to",      "transpose", "unflatten",
      "unsqueeze", "val",     "view",   "_unsafe_view", "numpy_T", "split",   "chunk"};
  return among(kMoves, without_count(result));
}

bool is_made_of_nothing(const std::string& result) {
  constexpr const char* kFactories[] = {"arange",        "empty",
                                        "empty_like",    "eye",
                                        "fill",          "full",
                                        "full_like",     "lift_fresh_copy",
                                        "linspace",      "new_empty",
                                        "new_full",      "new_ones",
                                        "new_zeros",     "ones",
                                        "ones_like",     "_tensor_constant",
                                        "scalar_tensor", "scalar_tensor_default",
                                        "zeros",         "zeros_like"};
  const std::string op = without_count(result);
  return among(kFactories, op) || op.starts_with("_tensor_constant") || op.starts_with("sym_");
}

bool may_be_alias(const std::string& result) {
  constexpr const char* kAliases[] = {
      "alpha_dropout",   "broadcast_to",          "dropout",        "expand",  "expand_as",
      "feature_dropout", "feature_alpha_dropout", "native_dropout", "type_as", "unbind"};
  return moves_only(result) || among(kAliases, without_count(result));
}

bool is_recurrent(const std::string& call) {
  constexpr const char* kRecurrent[] = {"aten.lstm.", "aten.gru.", "aten.rnn_tanh.", "aten.rnn_relu."};
  return has_one_of(kRecurrent, target_of(call));
}

bool steps_may_compute(const std::string& call, const std::string& op_type) {
  constexpr const char* kFactors[] = {"alpha: ", "beta: ", "value: "};
  const size_t named = call.find("kwargs = {");
  const std::string target = target_of(call);
  // attention multiplies queries and keys by the root of its scale
  if (target.find("attention") != std::string::npos) return true;
  if (named != std::string::npos && has_one_of(kFactors, call.substr(named))) return true;
  constexpr const char* kPointwise[] = {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min"};
  constexpr const char* kReshaping[] = {"norm", "conv", "linear"};  // here pointwise nodes read reshaped gains
  return among(kPointwise, op_type) && !has_one_of(kReshaping, target);
}

}  // namespace nacre::tools::onnx_import
