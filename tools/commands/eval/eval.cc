#include "tools/commands/eval/eval.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/report/eval_table.h"

namespace nacre::tools {
namespace {

// Returns whether the drop is above the limit; true also for a drop that is NaN.
bool exceeds(const Judgement& judgement, double max_drop) { return !(judgement.drop <= max_drop); }

void check_options(const EvalOptions& options) {
  if (options.max_drop && !(*options.max_drop >= 0))
    throw Error(kUsage, "--max-drop", fmt::format("is {}", *options.max_drop), "give a number from 0");
  if (options.max_time_us && !(*options.max_time_us > 0)) throw Error(kUsage, "--max-time-us", "is no time");
  if (options.models.empty()) throw Error(kUsage, "eval", "no model is named", "name one or several model files");
}

// Throws Error if a drop exceeds the limit, about the model with the largest drop.
void require_drops(const EvalOptions& options, const Evaluation& evaluation, const Metric& metric) {
  if (!options.max_drop) return;
  const Judgement* worst = nullptr;
  for (const Judgement& judgement : evaluation.models) {
    if (!exceeds(judgement, *options.max_drop)) continue;
    if (worst == nullptr || std::isnan(judgement.drop) || judgement.drop > worst->drop) worst = &judgement;
  }
  if (worst == nullptr) return;
  throw Error(kFailed, worst->model,
              fmt::format("its {} is {}, a drop of {:.6g}, more than {:.6g} is not allowed", options.set.metric,
                          value_text(metric, worst->score.value), worst->drop, *options.max_drop),
              "nacre compare tells which layers do it");
}

bool limited(const Evaluation& evaluation, const Judgement& judgement) {
  return evaluation.models.size() == 1 || &judgement != &evaluation.models.front();
}
bool too_large(const EvalOptions& o, const Judgement& j) { return o.max_bytes && j.file_bytes > *o.max_bytes; }
bool too_slow(const EvalOptions& o, const Judgement& j) { return o.max_time_us && !(j.median_us <= *o.max_time_us); }

// Throws Error about the first model that is larger or slower than allowed.
void require_size_and_time(const EvalOptions& options, const Evaluation& evaluation) {
  for (const Judgement& judgement : evaluation.models) {
    if (!limited(evaluation, judgement)) continue;
    if (too_large(options, judgement))
      throw Error(kFailed, judgement.model,
                  fmt::format("its file has {} bytes, more than {} are not allowed", grouped(judgement.file_bytes),
                              grouped(*options.max_bytes)),
                  "nacre search finds a smaller policy map");
    if (too_slow(options, judgement))
      throw Error(kFailed, judgement.model,
                  fmt::format("a sample takes {:.4g} us, more than {:.4g} is not allowed", judgement.median_us,
                              *options.max_time_us),
                  "nacre bench --profile tells which steps take it");
  }
}

Json json_of(const EvalOptions& options, const Evaluation& evaluation, const Metric& metric) {
  Json json = evaluation_json(evaluation, metric, options.set.metric);
  if (options.max_drop) json["max_drop"] = *options.max_drop;
  if (options.max_bytes) json["max_bytes"] = *options.max_bytes;
  if (options.max_time_us) json["max_time_us"] = *options.max_time_us;
  if (!options.max_drop && !options.max_bytes && !options.max_time_us) return json;
  for (size_t i = 0; i < evaluation.models.size(); ++i) {
    const Judgement& j = evaluation.models[i];
    const bool over = limited(evaluation, j) && (too_large(options, j) || too_slow(options, j));
    json["models"][i]["exceeds"] = over || (options.max_drop && exceeds(j, *options.max_drop));
  }
  return json;
}

}  // namespace

void eval(const EvalOptions& options) {
  check_options(options);
  const LabelledSet set = read_set(options.set);
  std::vector<std::unique_ptr<LoadedModel>> models;
  std::vector<const LoadedModel*> pointers;
  for (const std::string& path : options.models) {
    models.push_back(std::make_unique<LoadedModel>(path));
    pointers.push_back(models.back().get());
  }
  const Evaluation evaluation = evaluate_models(
      pointers, set,
      {.target = options.target, .output = options.output, .running = options.running, .cast = options.cast_inputs});
  if (options.json) {
    print_json(json_of(options, evaluation, set.metric));
  } else {
    print(evaluation_text(evaluation, set.metric, options.set.metric));
  }
  require_drops(options, evaluation, set.metric);
  require_size_and_time(options, evaluation);
}

}  // namespace nacre::tools
