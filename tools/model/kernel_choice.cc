#include "tools/model/kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "engine/kernels/training.h"
#include "ports/cuda/cuda_port.h"
#include "ports/vector/tiers.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/model/gpu.h"
#ifdef NACRE_XNNPACK
#include "ports/xnnpack/xnnpack_port.h"
#endif

namespace nacre::tools {
namespace {

const std::vector<VectorTier>& tiers() {
  static const std::vector<VectorTier> all = [] {
    std::vector<VectorTier> found;
    each_vector_tier([&](const VectorTier& tier) { found.push_back(tier); });
    return found;
  }();
  return all;
}
// Returns the tier of this name, or null.
const VectorTier* tier_named(std::string_view name) {
  for (const VectorTier& tier : tiers())
    if (name == tier.name) return &tier;
  return nullptr;
}
const VectorTier* tier_of_target(std::string_view target) {
  for (const VectorTier& tier : tiers())
    if (target == tier.port->name) return &tier;
  return nullptr;
}
// Returns the fastest tier that runs here and that "auto" may take, or null.
const VectorTier* best_tier() {
  const VectorTier* best = nullptr;
  for (const VectorTier& tier : tiers())
    if (tier.runs_here && !tier.by_name) best = &tier;
  return best;
}
constexpr const char* kNotHere = "this processor or this build of nacre does not have its instructions";

}  // namespace

std::vector<std::string> kernel_choices() {
  std::vector<std::string> names = {"auto", "reference"};
  for (const VectorTier& tier : tiers()) names.emplace_back(tier.name);
#ifdef NACRE_XNNPACK
  names.emplace_back("xnnpack");
#endif
  names.emplace_back(kTf32);
  return names;
}

std::vector<std::string> kernel_sets_listed() {
  std::vector<std::string> names = kernel_choices();
  names[0] = "reference", names[1] = "training";
  names.pop_back();  // "tf32" is no set
  return names;
}

namespace {

// Turns "kDepthwiseConv2dI8Double" into "depthwise_conv2d_i8_double".
std::string in_words(const char* name) {
  std::string words;
  for (const char* c = name + 1; *c != 0; ++c) {
    const bool upper = std::isupper(static_cast<unsigned char>(*c)) != 0;
    if (upper && c > name + 1) words += '_';
    words += char(std::tolower(static_cast<unsigned char>(*c)));
  }
  return words;
}

}  // namespace

std::vector<ListedKernel> kernels_of_set(const std::string& set) {
  const VectorTier* const tier = tier_named(set);
  std::vector<ListedKernel> kernels;
#ifdef NACRE_XNNPACK
  if (set == "xnnpack") {
    for (const reference::NamedEntry& named : xnnpack::list()) kernels.push_back({in_words(named.name), named.entry});
    return kernels;
  }
#endif
  for (const reference::NamedEntry& named : tier != nullptr     ? tier->list
                                            : set == "training" ? reference::training_list()
                                                                : reference::list())
    kernels.push_back({in_words(named.name), named.entry});
  return kernels;
}

bool set_runs_here(const std::string& set) {
  const VectorTier* const tier = tier_named(set);
  return tier != nullptr ? tier->runs_here : set != "xnnpack" || xnnpack_port() != nullptr;
}

std::vector<TierHere> tiers_here() {
  std::vector<TierHere> here;
  for (const VectorTier& tier : tiers()) {
    if (tier.emulated) continue;
    const auto has_code = [](const reference::NamedEntry& named) { return named.entry->run != nullptr; };
    const bool compiled = std::ranges::all_of(tier.list, has_code);
    // A build leaves the portable tier out where another is always there: that is nothing that could be added.
    const bool portable = tier.port == &x86::port(x86::Tier::kPortable);
    if (compiled || (tier.processor_has && !portable))
      here.push_back(
          {.name = tier.name, .compiled = compiled, .processor_has = tier.processor_has, .by_name = tier.by_name});
  }
  return here;
}

std::vector<std::string> emulated_tiers() {
  std::vector<std::string> names;
  for (const VectorTier& tier : tiers())
    if (tier.emulated) names.emplace_back(tier.name);
  return names;
}

std::string best_set() { return name_of_port(port_named("auto")); }

const Port* xnnpack_port() {
#ifdef NACRE_XNNPACK
  return xnnpack::port();
#else
  return nullptr;
#endif
}

const Port* port_named(const std::string& choice) {
  if (choice == kTf32)
    throw Error(kUsage, option("kernels", "tf32"),
                "it is about products of float32 on a GPU, and the program is for the host",
                "leave it out, or convert the network with " + option("target", "cuda/sm80") + " or another GPU");
  if (choice == "xnnpack") {
    if (const Port* const port = xnnpack_port(); port != nullptr) return port;
    throw Error(kUnsupported, option("kernels", "xnnpack"), "the library does not run on this processor",
                "leave it out");
  }
  const VectorTier* const best = best_tier();
  if (choice == "reference" || (choice == "auto" && best == nullptr)) return nullptr;
  const VectorTier* const tier = choice == "auto" ? best : tier_named(choice);
  if (tier == nullptr)
    throw Error(kUsage, option("kernels", choice), "is no set of kernels", "nacre kernels lists them");
  if (!tier->runs_here)
    throw Error(kUnsupported, option("kernels", choice), kNotHere,
                fmt::format("leave it out: {} is the fastest here", best != nullptr ? best->name : "the reference"));
  return tier->port;
}

std::vector<const KernelSet*> kernels_of_target(const std::string& target) {
  std::vector<const KernelSet*> sets;
  if (const VectorTier* const tier = tier_of_target(target); tier != nullptr) sets.push_back(tier->port->set);
  sets.insert(sets.end(), {&reference::kernels(), &reference::training_kernels()});
  return sets;
}

const Port* port_for(const std::string& choice, const std::string& target) {
  const VectorTier* const tier = tier_of_target(target);
  if (tier == nullptr) return port_named(choice);
  if (choice != "auto" && choice != tier->name)
    throw Error(kUsage, option("kernels", choice), "the program is compiled for " + target,
                "leave it out, or convert the network with " + option("target", "host"));
  if (!tier->runs_here)
    throw Error(kUnsupported, "a program for " + target, kNotHere,
                "run it on another machine, or convert the network with " + option("target", "host"));
  return tier->port;
}

const Port* port_for_target(const std::string& target) {
  return tier_of_target(target) != nullptr ? port_for("auto", target) : nullptr;
}

bool is_emulated(const std::string& target) {
  const VectorTier* const tier = tier_of_target(target);
  return tier != nullptr && tier->emulated;
}

bool target_runs_here(const std::string& target) {
  const VectorTier* const tier = tier_of_target(target);
  if (is_gpu_target(target)) return gpu_is_here() && architecture_of(target) <= gpu_architecture();
  return tier == nullptr || tier->runs_here;
}

const std::string* target_for_here(std::span<const std::string> targets) {
  // a single target is taken even if it does not run here
  if (targets.size() < 2) return targets.empty() ? nullptr : &targets[0];
  const auto host = std::ranges::find(targets, "host");
  const auto first = host != targets.end() ? host : std::ranges::find_if(targets, target_runs_here);
  if (first == targets.end()) return &targets[0];
  return is_gpu_target(*first) ? newest_gpu_target(targets, gpu_architecture()) : &*first;
}

namespace {

std::string in_set(const std::string& set, const ListedKernel& listed) {
  return (set == "training" ? "reference" : set) + "/" + listed.name;
}

// Maps the key that says(kernel) gives to the kernel's name, for each set, and for all sets under "". If several
// kernels have a key, the first counts.
template <class Key, class Says>
std::map<std::string, std::map<Key, std::string>> names_by(const Says& says) {
  std::map<std::string, std::map<Key, std::string>> all;
  for (const std::string& set : kernel_sets_listed())
    for (const ListedKernel& listed : kernels_of_set(set))
      for (const std::string& key : {set, std::string()})
        if (const Key of = says(listed); of != nullptr) all[key].try_emplace(of, in_set(set, listed));
  return all;
}
template <class Key>
std::string name_in(const std::map<std::string, std::map<Key, std::string>>& names, Key of, const std::string& set) {
  for (const std::string& key : {set, std::string()})
    if (const auto own = names.find(key); own != names.end())
      if (const auto found = own->second.find(of); found != own->second.end()) return found->second;
  return "";
}

}  // namespace

std::string name_of_kernel(Kernel kernel, const std::string& set) {
  if (const char* const on_gpu = cuda::Device::name_of(kernel); on_gpu != nullptr) return "cuda/" + in_words(on_gpu);
  static const auto names = names_by<Kernel>([](const ListedKernel& listed) { return listed.entry->run; });
  return name_in(names, kernel, set);
}

std::string name_of_entry(const KernelEntry& entry, const std::string& set) {
  static const auto names = names_by<const KernelEntry*>([](const ListedKernel& listed) { return listed.entry; });
  return name_in(names, &entry, set);
}

std::string target_of_set(const std::string& set) {
  const VectorTier* const tier = tier_named(set);
  return tier != nullptr ? tier->port->name : "";
}

std::string set_of_target(const std::string& target) {
  const VectorTier* const tier = tier_of_target(target);
  return tier != nullptr ? tier->name : target;
}

std::string name_of_port(const Port* port) {
  if (port == nullptr) return "reference";
  const VectorTier* const tier = tier_of_target(port->name);
  return tier != nullptr ? tier->name : port->name;
}

std::string name_of_ports(std::span<const Port* const> ports) {
  std::string names;
  for (const Port* const port : ports) names += (names.empty() ? "" : "+") + name_of_port(port);
  return names;
}

}  // namespace nacre::tools
