#include "tools/policies/policy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_set>
#include <vector>

#include "tools/base/nearest.h"
#include "tools/files/input_file.h"

namespace nacre::tools {
namespace {

// Checks every token of the JSON before it is stored.
class Guard {
 public:
  explicit Guard(const Place& place) : place_(place) {}

  void operator()(int depth, Json::Event event, const std::string& key) {
    if (depth > kDeepestPolicyFile)
      place_.refuse("BadJson", fmt::format("nests deeper than {} levels", kDeepestPolicyFile));
    if (++values_ > kMostPolicyFileValues)
      place_.refuse("BadJson", fmt::format("has more than {} keys and values", kMostPolicyFileValues));
    if (event == Json::Event::kObjectStart) keys_.emplace_back();
    if (event == Json::Event::kObjectEnd) keys_.pop_back();
    if (event == Json::Event::kKey) take(key);
  }

 private:
  void take(const std::string& key) {
    if (!keys_.back().insert(key).second)
      place_.refuse("BadJson", fmt::format("has the key {} twice in one object", in_quotes(key)), "keep one of them");
    if (keys_.back().size() > kMostPolicyFileKeys)
      place_.refuse("BadJson", fmt::format("has an object of more than {} keys", kMostPolicyFileKeys));
  }

  const Place& place_;
  size_t values_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // keys of each open object
};

// Returns text that names the byte that JSON cannot have there, the last of the first `read` bytes, and its position.
std::string place_in(const std::string& text, size_t read) {
  const size_t at = std::min(read == 0 ? 0 : read - 1, text.size());
  if (at == text.size()) return "it ends too early";
  const size_t line = text.rfind('\n', at == 0 ? 0 : at - 1),
               start = line == std::string::npos || at == 0 ? 0 : line + 1;
  return fmt::format("{} in line {}, column {}, cannot stand there", in_quotes(text.substr(at, 1)),
                     1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'), at - start + 1);
}

}  // namespace

Json parse_policy_json(const std::string& text, const std::string& name) {
  const Place place = {name, kBadInput};
  if (text.size() > kMostPolicyFileBytes)
    place.refuse("BadJson", fmt::format("is larger than {} bytes", kMostPolicyFileBytes), "is it a policy file?");
  Guard guard(place);
  try {
    return Json::parse(text, std::ref(guard));
  } catch (const JsonError& error) {
    if (!error.syntax) place.refuse("BadJson", "is no JSON: it holds a number that no float64 holds");
    place.refuse("BadJson", "is no JSON: " + place_in(text, error.byte),
                 "look for a missing comma, quote or bracket, or a byte that is no UTF-8");
  }
}

Json read_policy_json(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostPolicyFileBytes);
  const std::string text(bytes.begin(), bytes.end());
  return parse_policy_json(text, path);
}

}  // namespace nacre::tools
