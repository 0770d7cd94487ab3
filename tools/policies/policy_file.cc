#include "tools/policies/policy_file.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <unordered_set>
#include <vector>

#include "tools/input_file.h"
#include "tools/policies/nearest.h"

namespace nacre::tools {
namespace {

// Sees every token before it is stored.
class Guard {
 public:
  explicit Guard(const Place& place) : place_(place) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepestPolicyFile)
      place_.refuse("BadJson", fmt::format("nests deeper than {} levels", kDeepestPolicyFile));
    if (++values_ > kMostPolicyFileValues)
      place_.refuse("BadJson", fmt::format("has more than {} keys and values", kMostPolicyFileValues));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) take(parsed.get_ref<const std::string&>());
    return true;
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
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
};

}  // namespace

Json parse_policy_json(const std::string& text, const std::string& name) {
  const Place place = {name, kBadInput};
  if (text.size() > kMostPolicyFileBytes)
    place.refuse("BadJson", fmt::format("is larger than {} bytes", kMostPolicyFileBytes), "is it a policy file?");
  Guard guard(place);
  try {
    return Json::parse(text, std::ref(guard));
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": from "parse error" on.
    const char* said = std::strstr(error.what(), "parse error at");
    place.refuse("BadJson", fmt::format("is no JSON: {}", in_quotes(said == nullptr ? error.what() : said, 200)));
  } catch (const Json::exception& error) {
    place.refuse("BadJson", fmt::format("cannot be read as JSON: {}", in_quotes(error.what())));
  }
}

Json read_policy_json(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostPolicyFileBytes);
  const std::string text(bytes.begin(), bytes.end());
  return parse_policy_json(text, path);
}

}  // namespace nacre::tools
