#include "tests/policies/keras_language_check.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>
#include <vector>

#include "tools/policies/keras_json.h"
#include "tools/policies/keras_policy.h"
#include "tools/policies/policy_map.h"

namespace nacre::tools {
namespace {

Json describe(const KerasPolicy& p) {
  return {{"class", p.class_name},  {"name", p.name},        {"compute", p.compute},
          {"variable", p.variable}, {"mode", p.mode},        {"block", p.block_size},
          {"bits", p.weight_bits},  {"group", p.group_size}, {"amax", p.amax_history_length}};
}

// Returns the name of the policy found, or null if it is the default.
Json look_up(const Json& test) {
  PolicyMap map;
  std::vector<KerasPolicy> policies;
  for (const Json& entry : test["entries"]) {
    // Keras refuses a duplicate key before it reads the key's policy.
    map.insert(entry[0].get<std::string>(), {});
    policies.push_back(parse_keras_policy(entry[1].get<std::string>()));
  }
  const std::optional<size_t> found = map.find(test["path"].get<std::string>());
  return found ? Json(policies[*found].name) : Json(nullptr);
}

Json run(const Json& test) {
  const std::string kind = test["kind"];
  try {
    if (kind == "map") return {{"result", look_up(test)}};
    if (kind == "constructor") return {{"result", describe(construct_keras_policy(test["text"]))}};
    if (kind == "name") return {{"result", describe(parse_keras_policy(test["text"]))}};
    if (kind == "json") return {{"result", describe(*read_keras_json(test["json"], {}, test["global"]).policy)}};
  } catch (const PolicyError& error) {
    return {{"error", error.label}};
  }
  throw std::runtime_error("unknown kind of case: " + kind);
}

}  // namespace

LanguageCheck check_keras_language(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read");
  const Json table = Json::parse(file);
  LanguageCheck check;
  check.versions = fmt::format("keras {}, {} backend", table["versions"]["keras"].get<std::string>(),
                               table["versions"]["backend"].get<std::string>());
  for (const Json& test : table["cases"]) {
    Json expected = Json::object();
    for (const char* key : {"result", "error"})
      if (test.contains(key)) expected[key] = test[key];
    const Json found = run(test);
    ++check.cases;
    check.agreed += found == expected;
    if (found != expected && check.first_difference.empty())
      check.first_difference = fmt::format("{}: ours {}", test.dump(), found.dump());
  }
  return check;
}

}  // namespace nacre::tools
