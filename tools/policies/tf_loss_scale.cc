#include "tools/policies/tf_loss_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/base/nearest.h"

namespace nacre::tools {
namespace {

constexpr const char* kExpected = "null, \"auto\", \"dynamic\", a number of at least 1, or an object of TensorFlow's";

// Defaults of DynamicLossScale.__init__.
constexpr double kInitial = 32768, kMultiplier = 2;
constexpr int64_t kPeriod = 2000;

double number(const Json& config, const char* key, double otherwise, double above, const Place& place) {
  if (!config.contains(key)) return otherwise;
  const Json& value = config.at(key);
  const double x = value.is_number() ? value.get<double>() : std::nan("");
  if (!std::isfinite(float(x)) || !(x > above))
    place.of(key).refuse("BadField", fmt::format("{} is no number above {:g}", value.dump(), above));
  return x;
}

int64_t steps(const Json& config, const char* key, const Place& place) {
  if (!config.contains(key)) return kPeriod;
  const double x = number(config, key, 0, 0, place);
  if (x != std::trunc(x) || x > INT32_MAX)
    place.of(key).refuse("BadField", fmt::format("{} is no number of steps", config.at(key).dump()));
  return int64_t(x);
}

TfLossScale read_dynamic(const Json& config, const Place& place) {
  check_keys(config, {"initial_loss_scale", "increment_period", "multiplier"}, place);
  const double initial = number(config, "initial_loss_scale", kInitial, 0, place),
               multiplier = number(config, "multiplier", kMultiplier, 1, place);
  const int64_t period = steps(config, "increment_period", place);
  TfLossScale scale = {.field = "dynamic", .numbers = {}};
  if (initial != kInitial) scale.numbers += fmt::format("={}", float(initial));
  if (period != kPeriod) scale.numbers += fmt::format(",period={}", period);
  if (multiplier != kMultiplier) scale.numbers += fmt::format(",factor={}", float(multiplier));
  return scale;
}

}  // namespace

TfLossScale read_tf_loss_scale(const Json& json, const Place& place) {
  if (json.is_null()) return {.field = "none", .numbers = {}};
  if (json.is_string() || json.is_number()) return {.field = json, .numbers = {}};
  if (!json.is_object()) place.refuse("WrongType", fmt::format("{}, expected {}", json.dump(), kExpected));
  check_keys(json, {"class_name", "config", "module", "registered_name"}, place);
  if (!json.contains("class_name") || !json.at("class_name").is_string())
    place.refuse("MissingField", "the object has no class_name", "FixedLossScale and DynamicLossScale are read");
  const std::string name = json.at("class_name").get<std::string>();
  const Place inside = place.of("config");
  const Json config = json.contains("config") ? json.at("config") : Json::object();
  if (!config.is_object()) inside.refuse("WrongType", fmt::format("{}, expected an object", config.dump()));
  if (name == "DynamicLossScale") return read_dynamic(config, inside);
  if (name != "FixedLossScale")
    place.of("class_name")
        .refuse("UnknownClass", fmt::format("{} is no loss scale of TensorFlow's", in_quotes(name)),
                "FixedLossScale and DynamicLossScale are read");
  check_keys(config, {"loss_scale_value"}, inside);
  if (!config.contains("loss_scale_value") || !config.at("loss_scale_value").is_number())
    inside.refuse("MissingField", "the number loss_scale_value is missing");
  return {.field = config.at("loss_scale_value"), .numbers = {}};
}

}  // namespace nacre::tools
