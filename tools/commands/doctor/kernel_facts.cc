// Facts of the kernels: the tiers of this build and of this processor, and the self-test.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/base/error.h"
#include "tools/commands/doctor/facts.h"
#include "tools/commands/doctor/self_test.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

Fact tier_fact(const TierHere& tier) {
  Fact fact = {.name = "tier " + tier.name, .is = "compiled, runs here"};
  if (!tier.compiled) {
    fact.presence = Presence::kNotCompiled;
    fact.is = "this processor has its instructions";
    fact.remedy = fmt::format("build with -Dx86_tiers={}, or with =all", tier.name);
  } else if (!tier.processor_has) {
    fact.presence = Presence::kNotHere;
    fact.is = "compiled, but this processor or system lacks its instructions";
  } else if (tier.by_name) {
    fact.is += fmt::format(", by --kernels {} alone", tier.name);
  }
  return fact;
}

Fact self_test_fact() {
  std::vector<const Port*> ports;
  for (const TierHere& tier : tiers_here())
    if (tier.compiled && tier.processor_has) ports.push_back(port_named(tier.name));
  if (xnnpack_port() != nullptr) ports.push_back(xnnpack_port());
  std::vector<std::string> names;
  for (const Port* const port : ports) names.push_back(name_of_port(port));
  const std::vector<std::string> differences = test_kernels(ports);
  if (differences.empty())
    return {.name = "self-test",
            .is = fmt::format("a small network gives the reference's outputs{}",
                              names.empty() ? "" : fmt::format(" with {}", fmt::join(names, ", ")))};
  return {.name = "self-test",
          .presence = Presence::kBroken,
          .is = fmt::format("{}", fmt::join(differences, "; ")),
          .remedy = "run with --kernels reference, and report this output as a defect"};
}

}  // namespace

Facts kernel_facts() {
  Facts facts = {{.name = "reference", .is = "runs on every processor"}};
  for (const TierHere& tier : tiers_here()) facts.push_back(tier_fact(tier));
  facts.push_back({.name = "picked", .is = best_set() + " runs models unless --kernels names another"});
  facts.push_back(
      {.name = "microcontrollers", .is = fmt::format("{} run here in plain C++", fmt::join(emulated_tiers(), ", "))});
  facts.push_back(self_test_fact());
  return facts;
}

}  // namespace nacre::tools
