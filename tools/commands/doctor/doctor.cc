#include "tools/commands/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ports/cuda/cuda_port.h"
#include "tools/base/colour.h"
#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/base/version.h"
#include "tools/commands/doctor/facts.h"
#include "tools/model/gpu.h"

namespace nacre::tools {
namespace {

struct State {
  const char* word;
  Colour colour;
};
constexpr State kStates[] = {{"there", Colour::kGreen},     {"limited", Colour::kYellow},
                             {"missing", Colour::kYellow},  {"not compiled", Colour::kYellow},
                             {"not here", Colour::kYellow}, {"broken", Colour::kRed}};
static_assert(std::size(kStates) == size_t(Presence::kBroken) + 1);
const State& state_of(const Fact& fact) { return kStates[size_t(fact.presence)]; }

struct Group {
  const char* name;
  Facts facts;
};

std::vector<Group> all_facts() {
  const cuda::Driver* const driver = cuda::load_driver();
  return {{"processor", processor_facts()},
          {"memory", memory_facts()},
          {"kernels", kernel_facts()},
          {"libraries", library_facts()},
          {"gpu", gpu_facts(driver, cuda::load_cublaslt(driver) != nullptr, gpu_nccl() != nullptr)},
          {"firmware", firmware_facts()},
          {"terminal", terminal_facts()}};
}

void print_text(const std::vector<Group>& groups) {
  size_t states = 0, names = 0;
  for (const State& state : kStates) states = std::max(states, std::string_view(state.word).size());
  for (const Group& group : groups)
    for (const Fact& fact : group.facts) names = std::max(names, fact.name.size());
  for (const Group& group : groups) {
    for (const Fact& fact : group.facts) {
      const State& state = state_of(fact);
      print_in_colour(state.colour, state.word);
      print(fmt::format("{:{}}  {:<{}}  {}{}{}\n", "", states - std::string_view(state.word).size(), fact.name, names,
                        fact.is, fact.remedy.empty() ? "" : "; ", fact.remedy));
    }
    print("\n");
  }
}

void print_as_json(const std::vector<Group>& groups, bool works) {
  Json list = Json::array();
  for (const Group& group : groups)
    for (const Fact& fact : group.facts)
      list.push_back({{"group", group.name},
                      {"name", fact.name},
                      {"state", state_of(fact).word},
                      {"is", fact.is},
                      {"remedy", fact.remedy}});
  print_json({{"version", kVersion}, {"works", works}, {"facts", list}});
}

}  // namespace

void doctor(const DoctorOptions& options) {
  const std::vector<Group> groups = all_facts();
  const Fact* broken = nullptr;
  for (const Group& group : groups)
    for (const Fact& fact : group.facts)
      if (fact.presence == Presence::kBroken) broken = &fact;
  if (options.json) print_as_json(groups, broken == nullptr);
  else print_text(groups);
  if (broken != nullptr) throw Error(kFailed, broken->name, broken->is, broken->remedy);
  if (!options.json) print("Nacre works here.\n");
}

}  // namespace nacre::tools
