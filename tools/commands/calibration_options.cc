// Defines the options about calibration samples and about the ranges that are measured on them.
#include "tools/commands/convert/options.h"

namespace nacre::tools {
namespace {

using S = CalibrationArguments;

const ActsWhen<S> kOfSamples = {.with = {"--calibrate"},
                                .fact = "is about ranges, and there are no samples to find them in",
                                .remedy = "add --calibrate DATA"};

bool finds_by(const S& o, const std::string& method) {
  const auto names_it = [&](const std::string& rule) { return rule.ends_with("=" + method); };
  return o.method == method || std::ranges::any_of(o.overrides, names_it);
}

OptionTable<S> make_calibration_options() {
  return {
      {.name = "--calibrate",
       .value = "DATA",
       .help = "samples for int8/static, float8, gptq, awq: .npz, .npy, or a folder of .npy",
       .field = [](S& o) { return &o.data; },
       .text = OptionText::kFile,
       .input = true,
       .stage = Stage::kCalibrate},
      {.name = "--range-method",
       .value = "min_max|moving_average|percentile|mse|entropy",
       .help = "how ranges are found in the samples [min_max]",
       .field =
           [](S& o) {
             return choice(o.method,
                           std::vector<std::string>{"min_max", "moving_average", "percentile", "mse", "entropy"});
           },
       .acts = {kOfSamples}},
      {.name = "--range",
       .value = "PATTERN=METHOD",
       .help = "the range method for the layers that PATTERN matches",
       .field = [](S& o) { return &o.overrides; },
       .acts = {kOfSamples}},
      {.name = "--percentile",
       .value = "P",
       .help = "share of the values within a range, in percent, under --range-method percentile [99.99]",
       .field = [](S& o) { return &o.options.percentile; },
       .acts = {kOfSamples,
                {.when = [](const S& o) { return finds_by(o, "percentile"); },
                 .fact = "no range is found by percentiles",
                 .remedy = "add --range-method percentile"}}},
      {.name = "--range-decay",
       .value = "D",
       .help = "weight of the range so far at each sample, under --range-method moving_average [0.999]",
       .field = [](S& o) { return &o.options.decay; },
       .acts = {kOfSamples,
                {.when = [](const S& o) { return finds_by(o, "moving_average"); },
                 .fact = "no range is found by a moving average",
                 .remedy = "add --range-method moving_average"}}},
      {.name = "--cast-samples",
       .value = "",
       .help = "change the type of samples, where no number changes by it",
       .field = [](S& o) { return Flag{&o.samples.cast}; },
       .acts = {kOfSamples},
       .alias = "--cast-inputs"},
  };
}

}  // namespace

const OptionTable<CalibrationArguments>& calibration_options() {
  static const OptionTable<CalibrationArguments> table = make_calibration_options();
  return table;
}

}  // namespace nacre::tools
