#include "tools/evaluate/tensor_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/base/names.h"
#include "tools/model/tensor_dump.h"

namespace nacre::tools {
namespace {

struct Made {
  uint32_t tensor;
  int step;  // the step that completes the tensor
};

// Returns the tensors that steps make, in the order in which they are complete.
std::vector<Made> made_tensors(const ProgramReport& report) {
  const ProgramView& view = report.view();
  const std::vector<int> complete = completing_steps(report.loaded().model(), view);
  std::set<uint32_t> written;
  for (const ReportStep& step : report.steps())
    for (const ReportOperand& operand : step.operands)
      if (operand.role != Role::kIn) written.insert(operand.tensor);
  std::vector<Made> made;
  for (uint32_t i = 0; i < view.tensor_count; ++i) {
    const uint32_t id = view.first_tensor + i;
    const bool is_view = report.tensor(id).alias_of != kNoIndex && !written.contains(id);
    if (complete[i] >= 0 && !is_view) made.push_back({id, complete[i]});
  }
  std::ranges::stable_sort(made, {}, &Made::step);
  return made;
}

// Returns the tensor's source_name(), or "" if names were stripped: LoadedModel then makes a name from the id.
std::string own_name(const ProgramReport& report, uint32_t tensor) {
  const std::string name = report.loaded().tensor_name(tensor);
  return name == fmt::format("tensor{}", tensor) ? "" : source_name(name);
}

// Returns whether apply_policy appends this word to a value's name when it stores the value in another type. Types'
// names are such words too.
bool is_policy_suffix(std::string_view word) {
  constexpr std::string_view kSuffixes[] = {"codes", "real", "requantized", "quantized", "float8"};
  return std::ranges::find(kSuffixes, word) != std::end(kSuffixes) || find_name<ElementType>(word);
}

// Returns whether the codes have a scale made at run time. They mean nothing without it, and their value is stored
// too.
bool is_dynamic_code(const ProgramReport& report, const Made& made) {
  return report.steps()[size_t(made.step)].op == Op::kDynamicQuantize;
}

uint32_t layer_of(const ProgramReport& report, const Made& made) { return report.steps()[size_t(made.step)].layer; }

// Picks of the tensors with one source name the last that the first one's layer makes. Keeps their order.
std::vector<Made> counting(const ProgramReport& report, const std::vector<Made>& made) {
  std::map<std::string, std::pair<uint32_t, size_t>> groups;  // by source name: layer of the first, index of the last
  std::set<std::string> inputs;
  for (const uint32_t input : report.view().inputs) inputs.insert(own_name(report, input));
  for (size_t i = 0; i < made.size(); ++i) {
    const std::string own = own_name(report, made[i].tensor);
    if (is_dynamic_code(report, made[i]) || (!own.empty() && inputs.contains(own))) continue;
    const uint32_t layer = layer_of(report, made[i]);
    const auto [found, first] =
        groups.try_emplace(own.empty() ? fmt::format("tensor {}", i) : "named " + own, layer, i);
    if (!first && layer == found->second.first) found->second.second = i;
  }
  std::vector<size_t> chosen;
  for (const auto& [name, group] : groups) chosen.push_back(group.second);
  std::ranges::sort(chosen);
  std::vector<Made> result;
  for (const size_t i : chosen) result.push_back(made[i]);
  return result;
}

// Returns the layer whose last step makes this tensor, or "".
std::string layer_of_result(const ProgramReport& report, const Made& made) {
  const ReportStep& step = report.steps()[size_t(made.step)];
  if (step.layer == kNoIndex || step.output() != made.tensor) return "";
  const ReportLayer& layer = report.layers()[step.layer];
  return layer.steps.back() == step.index ? layer.name : "";
}

class Matcher {
 public:
  Matcher(const ProgramReport& a, const ProgramReport& b)
      : a_(a), b_(b), made_a_(counting(a, made_tensors(a))), made_b_(counting(b, made_tensors(b))) {
    partner_.assign(made_a_.size(), kNone);
    taken_.assign(made_b_.size(), false);
  }

  TensorMatch match() {
    match_by([](const ProgramReport& r, const Made& m) { return own_name(r, m.tensor); });
    match_by([](const ProgramReport& r, const Made& m) { return layer_of_result(r, m); });
    TensorMatch result;
    for (size_t i = 0; i < made_a_.size(); ++i) {
      if (partner_[i] == kNone) {
        result.unmatched.push_back({true, made_a_[i].tensor, uint32_t(made_a_[i].step), why_a_[i]});
      } else {
        const Made& partner = made_b_[partner_[i]];
        result.pairs.push_back({made_a_[i].tensor, partner.tensor, uint32_t(made_a_[i].step), uint32_t(partner.step)});
      }
    }
    for (size_t i = 0; i < made_b_.size(); ++i)
      if (!taken_[i]) result.unmatched.push_back({false, made_b_[i].tensor, uint32_t(made_b_[i].step), ""});
    return result;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  template <class Name>
  void match_by(Name name) {
    std::map<std::string, size_t> of_b;
    for (size_t i = 0; i < made_b_.size(); ++i)
      if (const std::string n = name(b_, made_b_[i]); !taken_[i] && !n.empty()) of_b.emplace(n, i);
    for (size_t i = 0; i < made_a_.size(); ++i) {
      if (partner_[i] != kNone) continue;
      const std::string n = name(a_, made_a_[i]);
      const auto found = n.empty() ? of_b.end() : of_b.find(n);
      if (found == of_b.end() || taken_[found->second]) continue;
      const uint32_t b = made_b_[found->second].tensor;
      if (!same_shape(a_.tensor(made_a_[i].tensor), b_.tensor(b))) {
        why_a_[i] = fmt::format("its namesake is {}", b_.shape_text(b));
        continue;
      }
      partner_[i] = found->second;
      taken_[found->second] = true;
    }
  }

  const ProgramReport &a_, &b_;
  std::vector<Made> made_a_, made_b_;
  std::vector<size_t> partner_;  // by index in made_a_
  std::vector<bool> taken_;      // by index in made_b_
  std::map<size_t, std::string> why_a_;
};

}  // namespace

std::string source_name(std::string_view name) {
  for (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0; slash = name.rfind('/')) {
    if (!is_policy_suffix(name.substr(slash + 1))) break;
    name = name.substr(0, slash);
  }
  return std::string(name);
}

bool same_shape(const TensorRecord& a, const TensorRecord& b) {
  const auto axes = [](const TensorRecord& r) {
    std::vector<int32_t> dims(r.dims, r.dims + r.rank);
    std::erase(dims, 1);
    return dims;
  };
  return axes(a) == axes(b);
}

TensorMatch match_tensors(const ProgramReport& a, const ProgramReport& b) { return Matcher(a, b).match(); }

}  // namespace nacre::tools
