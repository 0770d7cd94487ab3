#include "tools/commands/schedule_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

struct Name {
  const char* name;
  ScheduleKind kind;
  std::vector<std::string> fields;
};

const std::vector<Name>& known() {
  static const std::vector<Name> names = {{"constant", ScheduleKind::kConstant, {"warmup", "warmup_start"}},
                                          {"step", ScheduleKind::kStep, {"every", "gamma", "warmup", "warmup_start"}},
                                          {"linear", ScheduleKind::kLinear, {"steps", "end", "warmup", "warmup_start"}},
                                          {"cosine", ScheduleKind::kCosine, {"steps", "end", "warmup", "warmup_start"}},
                                          {"one_cycle", ScheduleKind::kOneCycle, {"steps", "start", "end", "pct"}}};
  return names;
}

template <class T>
T number(const std::string& field, const std::string& text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end)
    throw Error(kUsage, "--schedule",
                fmt::format("{}={} is no {}", field, text, std::is_integral_v<T> ? "count of steps" : "number"));
  return value;
}

void set(Schedule& s, const std::string& field, const std::string& text) {
  if (field == "warmup") s.warmup_steps = number<uint32_t>(field, text);
  else if (field == "steps" || field == "every") s.steps = number<uint32_t>(field, text);
  else if (field == "gamma") s.gamma = number<float>(field, text);
  else if (field == "end") s.end = number<float>(field, text);
  else if (field == "pct") s.pct = number<float>(field, text);
  else s.warmup_start = number<float>(field, text);  // fields warmup_start and start
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Name& n : known()) names.emplace_back(n.name);
  return names;
}

Schedule parse_schedule(const std::string& text, float rate, uint32_t steps) {
  if (!std::isfinite(rate) || rate < 0)
    throw Error(kUsage, "--lr", fmt::format("{} is no learning rate", rate), "give a finite number above 0");
  if (rate == 0) throw Error(kUsage, "--lr", "is 0: no step would change anything", "give a number above 0");
  const size_t comma = std::min(text.find(','), text.size());
  const auto found = std::ranges::find(known(), text.substr(0, comma), &Name::name);
  if (found == known().end())
    throw Error(kUsage, "--schedule",
                fmt::format("'{}' is none of {}", text.substr(0, comma), fmt::join(schedule_names(), ", ")));
  Schedule s = {.kind = found->kind, .rate = rate, .steps = std::max(steps, 1u)};
  // Defaults of torch: div_factor 25, final_div_factor 1e4.
  if (s.kind == ScheduleKind::kOneCycle) s.warmup_start = 0.04f, s.end = 1e-4f;
  bool length = false;
  std::set<std::string> given;
  for (size_t at = comma; at < text.size();) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    const std::string part = text.substr(at + 1, end - at - 1);
    const size_t equals = std::min(part.find('='), part.size());
    const std::string field = part.substr(0, equals);
    if (equals == part.size() || std::ranges::find(found->fields, field) == found->fields.end())
      throw Error(kUsage, "--schedule", fmt::format("'{}' is no field of {}", part, found->name),
                  fmt::format("write FIELD=NUMBER; fields: {}", fmt::join(found->fields, ", ")));
    if (!given.insert(field).second)
      throw Error(kUsage, "--schedule", fmt::format("names {} twice", field), "keep one of them");
    set(s, field, part.substr(equals + 1));
    length = length || field == "steps" || field == "every";
    at = end;
  }
  if (s.kind == ScheduleKind::kStep && !length)
    throw Error(kUsage, "--schedule", "step needs to know after how many steps", "write step,every=1000,gamma=0.1");
  if (!length && s.warmup_steps > 0)
    s.steps = s.steps > s.warmup_steps ? s.steps - s.warmup_steps : 1;  // warm-up and schedule together fill the run
  if (!s.valid())
    throw Error(kUsage, "--schedule", fmt::format("{} is out of range for a run of {} steps", text, steps),
                "shares (gamma, start, end, pct) lie in [0, 1], counts are at least 1, and one_cycle needs steps to "
                "rise and to fall");
  return s;
}

}  // namespace nacre::tools
