#include "tools/calibration/range_method.h"

#include <fmt/format.h>

#include <iterator>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

constexpr const char* kMethods[] = {"min_max", "moving_average", "percentile", "mse", "entropy"};
static_assert(std::size(kMethods) == size_t(RangeMethod::kCount));

}  // namespace

template <>
std::span<const char* const> names<RangeMethod>() {
  return kMethods;
}

RangeMethod parse_range_method(const std::string& text, const std::string& place) {
  if (const auto method = find_name<RangeMethod>(text)) return *method;
  throw Error(kUsage, place, fmt::format("there is no method '{}'", text),
              fmt::format("methods: {}", fmt::join(kMethods, ", ")));
}

std::pair<std::string, RangeMethod> parse_range_rule(const std::string& text, const std::string& place) {
  const size_t equals = text.rfind('=');  // a layer's name may hold a '=', a method's name holds none
  if (equals == std::string::npos || equals == 0)
    throw Error(kUsage, place, fmt::format("'{}' is not PATTERN=METHOD", text), "for example 'dense.*=percentile'");
  return {text.substr(0, equals), parse_range_method(text.substr(equals + 1), place)};
}

}  // namespace nacre::tools
