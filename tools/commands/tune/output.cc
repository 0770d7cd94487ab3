#include "tools/commands/tune/output.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/commands/check.h"
#include "tools/commands/convert/convert.h"
#include "tools/commands/tune/settings.h"
#include "tools/tuner/tuned_model.h"

namespace nacre::tools {

TunedOutput::TunedOutput(const TuneOptions& options, const Objective& objective, const Dataset& data,
                         const Split& split, const std::string& decisive, LoadedTrainer& trainer)
    : options_(options), objective_(objective), data_(data), split_(split), trainer_(trainer),
      metadata_({{"tuned", decisive}}) {
  if (options.output.empty() || is_model(options.model)) return;
  ImportOptions importing = importing_of(options, 0);
  importing.settled = true;
  deployment_.emplace(DeployOptions{.network = options.model,
                                    .importing = importing,
                                    .policies = parse_policy_options(options.policies),
                                    .metadata = metadata_});
}

void TunedOutput::require_possible() const {
  if (options_.output.empty()) return;
  const Deployed trial = deployment_ ? deployment_->deploy_untrained(trainer_.loaded(), trainer_.state())
                                     : Deployed{.bytes = tuned_model(trainer_, metadata_)};
  const LoadedModel made(trial.bytes, options_.output, kReportDefect);
  const BoundProgram bound(made, made.infer_program());
  objective_.judge_rows(made, bound.program(), data_, std::span(split_.train).first(1));
}

void TunedOutput::write(bool judged) {
  Written w;
  if (deployment_) w.deployed = deployment_->deploy(trainer_.loaded(), trainer_.state());
  else w.deployed.bytes = tuned_model(trainer_, metadata_);
  if (judged) judge(w);
  write_checked(options_.output, w.deployed.bytes, options_.model);
  if (judged) written_ = std::move(w);
}

void TunedOutput::judge(Written& w) const {
  const LoadedModel made(w.deployed.bytes, options_.output, kReportDefect);
  const BoundProgram bound(made, made.infer_program());
  const bool validates = !split_.validate.empty();
  const std::vector<int64_t>& rows = validates ? split_.validate : split_.train;
  w.judged = objective_.judge_rows(made, bound.program(), data_, rows);
  w.rows = counted(rows.size(), "row") + (validates ? " of validation" : " of training");
  w.statistics = statistics(made, made.infer_program());
  if (w.judged.not_finite == 0 && (w.judged.samples == 0 || std::isfinite(w.judged.mean_loss()))) return;
  throw Error(kFailed, options_.output,
              fmt::format("the model that was learned gives {} that {} not finite on the {}: it is not written",
                          w.judged.not_finite == 0 ? "a loss" : counted(w.judged.not_finite, "number"),
                          w.judged.not_finite <= 1 ? "is" : "are", w.rows),
              "take a lower --lr, or a policy with a wider type, such as bfloat16");
}

std::string TunedOutput::judged_text() const {
  const double accuracy = written_->judged.accuracy();
  return fmt::format("loss {:.5g}{} on the {}", written_->judged.mean_loss(),
                     std::isnan(accuracy) ? "" : fmt::format(", {:.2f} % right", 100 * accuracy), written_->rows);
}

std::vector<std::pair<std::string, std::string>> TunedOutput::facts(uint32_t epoch) const {
  const Statistics& s = written_->statistics;
  const double accuracy = written_->judged.accuracy();
  std::vector<std::pair<std::string, std::string>> all = {
      {"file", std::filesystem::path(options_.output).filename().string()},
      {"weights of epoch", grouped(epoch)},
      {"loss", fmt::format("{:.5g}", written_->judged.mean_loss())}};
  if (!std::isnan(accuracy)) all.emplace_back("accuracy", fmt::format("{:.2f} %", 100 * accuracy));
  all.insert(all.end(), {{"file size", grouped(s.file_bytes) + " bytes"},
                         {"weights", grouped(s.weight_bytes) + " bytes"},
                         {"arena (activations)", grouped(s.arena_bytes) + " bytes"},
                         {"batch size", grouped(s.batch)}});
  return all;
}

std::string TunedOutput::conditions() const {
  return fmt::format(
      "Loss and accuracy are those of the written model on the {}. Latency was not measured: nacre bench "
      "measures it, with the kernels that run on this machine.",
      written_->rows);
}

void TunedOutput::print() const {
  const Statistics& s = written_->statistics;
  tools::print(fmt::format("  network  {}\n", deployment_
                                                  ? "compiled anew: " + deployed_text(written_->deployed)
                                                  : "the training's own inference program; nacre export --network FILE "
                                                    "compiles the network anew, batch norms folded, adapters merged"));
  tools::print(fmt::format("  takes    {} at a time, arena {} bytes, file {} bytes\n", counted(s.batch, "row"),
                           grouped(s.arena_bytes), grouped(s.file_bytes)));
  tools::print(fmt::format("  gives    {}\n", judged_text()));
  tools::print(fallbacks_text(written_->deployed.fallbacks));
}

Json TunedOutput::json() const {
  if (!written_) return Json();
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  const Statistics& s = written_->statistics;
  return {{"batch", s.batch},
          {"arena_bytes", s.arena_bytes},
          {"weight_bytes", s.weight_bytes},
          {"file_bytes", s.file_bytes},
          {"parameters", written_->deployed.parameters},
          {"adapters", written_->deployed.adapters},
          {"rows", written_->rows},
          {"loss", number(written_->judged.mean_loss())},
          {"accuracy", number(written_->judged.accuracy())},
          {"fallbacks", written_->deployed.fallbacks}};
}

}  // namespace nacre::tools
