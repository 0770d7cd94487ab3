#include "tools/importers/shared/open_shape.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "tools/base/error.h"
#include "tools/base/option_id.h"

namespace nacre::tools {
namespace {

constexpr int64_t kMaxAxis = int64_t{1} << 31;

struct Given {
  std::string name;
  std::vector<int64_t> sizes;
};

[[noreturn]] void refuse(const std::string& file, const std::string& text, const std::string& fact,
                         const std::string& remedy = "") {
  throw Error(kUsage, file, option("shape", text) + ": " + fact, remedy);
}

Given parse_given(const std::string& text, const std::string& file) {
  const size_t equals = text.rfind('=');
  const auto malformed = [&] {
    refuse(file, text, "is no NAME=SIZE",
           "as " + option("shape", "seq=128") + " or " + option("shape", "x=1x3x224x224"));
  };
  if (equals == std::string::npos || equals == 0) malformed();
  Given given{text.substr(0, equals), {}};
  const char* at = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  for (bool more = true; more;) {
    int64_t size = 0;
    const auto [after, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size >= kMaxAxis) malformed();
    given.sizes.push_back(size);
    more = after != end;
    if (more && *after != 'x') malformed();
    at = after + 1;
  }
  return given;
}

using Sizes = std::map<std::string, int64_t>;  // symbol to size

void set_symbol(Sizes& sizes, const std::string& symbol, int64_t size, const std::string& text,
                const std::string& file) {
  const auto [found, added] = sizes.emplace(symbol, size);
  if (!added && found->second != size)
    refuse(file, text,
           "gives axis " + symbol + " the size " + std::to_string(size) + ", and another " + option("shape") +
               " gives it " + std::to_string(found->second));
}

void set_input(OpenShape& input, const Given& given, Sizes& sizes, const std::string& text, const std::string& file) {
  if (!input.axes) input.axes.emplace(given.sizes.size());
  std::vector<OpenShape::Axis>& axes = *input.axes;
  if (axes.size() != given.sizes.size())
    refuse(file, text,
           "has " + std::to_string(given.sizes.size()) + " sizes, the input has " + std::to_string(axes.size()) +
               " axes: " + text_of({input}));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size >= 0 && axes[i].size != given.sizes[i])
      refuse(file, text,
             "axis " + std::to_string(i) + " has the size " + std::to_string(axes[i].size) + " in the file");
    axes[i].size = given.sizes[i];
    if (!axes[i].symbol.empty()) set_symbol(sizes, axes[i].symbol, axes[i].size, text, file);
  }
}

bool has_symbol(const std::vector<OpenShape>& inputs, const std::string& symbol) {
  return std::ranges::any_of(inputs, [&](const OpenShape& input) {
    return input.axes && std::ranges::any_of(*input.axes, [&](const auto& axis) { return axis.symbol == symbol; });
  });
}

}  // namespace

std::string text_of(const std::vector<OpenShape>& inputs) {
  std::string text;
  for (const OpenShape& input : inputs) {
    text += (text.empty() ? "" : ", ") + input.name + " [";
    if (!input.axes) text += "of unknown rank";
    for (size_t i = 0; input.axes && i < input.axes->size(); ++i) {
      const OpenShape::Axis& axis = (*input.axes)[i];
      const std::string open = axis.symbol.empty() ? "?" : axis.symbol;
      text += (i > 0 ? ", " : "") + (axis.size >= 0 ? std::to_string(axis.size) : open);
    }
    text += "]";
  }
  return text;
}

void fix_open_axes(std::vector<OpenShape>& inputs, const std::vector<std::string>& given, const std::string& file) {
  const std::string of_file = text_of(inputs);
  Sizes sizes;
  for (const std::string& text : given) {
    const Given shape = parse_given(text, file);
    const auto input = std::ranges::find(inputs, shape.name, &OpenShape::name);
    const bool symbol = has_symbol(inputs, shape.name) && shape.sizes.size() == 1;
    if (symbol) set_symbol(sizes, shape.name, shape.sizes[0], text, file);
    else if (input != inputs.end()) set_input(*input, shape, sizes, text, file);
    else refuse(file, text, "the file has no input and no open axis of this name", "its inputs are " + of_file);
  }
  for (OpenShape& input : inputs)
    for (size_t i = 0; input.axes && i < input.axes->size(); ++i) {
      OpenShape::Axis& axis = (*input.axes)[i];
      const auto found = axis.symbol.empty() ? sizes.end() : sizes.find(axis.symbol);
      if (axis.size < 0 && found != sizes.end()) axis.size = found->second;
    }
}

}  // namespace nacre::tools
