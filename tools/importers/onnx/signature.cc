#include "tools/importers/onnx/signature.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "tools/importers/onnx/metadata.h"

namespace nacre::tools::onnx_import {
namespace {

bool of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Returns the quoted text after `key`, from `at` on, and moves `at` past it. Returns "" if there is none before
// `end`.
std::string quoted(const std::string& text, const std::string& key, size_t& at, size_t end) {
  const size_t found = text.find(key + "'", at);
  if (found == std::string::npos || found >= end) return "";
  const size_t first = found + key.size() + 1, last = text.find('\'', first);
  if (last == std::string::npos) return "";
  at = last + 1;
  return text.substr(first, last - first);
}

}  // namespace

Signature::Signature(const ::onnx::GraphProto& graph) {
  const std::string text = metadata_of(graph, kGraphMetadata, "pkg.torch.export.ExportedProgram.graph_signature");
  if (text.find("InputSpec(") != std::string::npos) read_specs(text);
  else read_lines(text);
}

void Signature::add(const std::string& placeholder, const std::string& kind, const std::string& target) {
  constexpr const char* kConstants[] = {"PARAMETER", "BUFFER", "CONSTANT_TENSOR"};
  if (placeholder.empty() || target.empty() ||
      std::find(std::begin(kConstants), std::end(kConstants), kind) == std::end(kConstants))
    return;
  entries_[placeholder] = {kind, target};
  placeholders_[target] = placeholder;
}

// Reads lines such as: p_fc_weight: PARAMETER target='fc.weight'
void Signature::read_lines(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line != "# outputs";) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const size_t kind = colon + 2, end = std::min(line.find(' ', kind), line.size());
    size_t at = end;
    add(line.substr(0, colon), line.substr(kind, end - kind), quoted(line, "target=", at, line.size()));
  }
}

// Reads entries such as: InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_fc_weight'),
// target='fc.weight', persistent=None)
void Signature::read_specs(const std::string& text) {
  const std::string begin = "InputKind.";
  for (size_t at = text.find(begin); at != std::string::npos;) {
    const size_t first = at + begin.size(), next = text.find(begin, first);
    const size_t end = std::min(text.find(':', first), text.size()), stop = std::min(next, text.size());
    size_t from = end;
    const std::string name = quoted(text, "name=", from, stop);
    add(name, text.substr(first, end - first), quoted(text, "target=", from, stop));
    at = next;
  }
}

bool Signature::is_parameter(const std::string& placeholder) const {
  const auto found = entries_.find(placeholder);
  return found != entries_.end() && found->second.kind == "PARAMETER";
}

std::string Signature::parameter_of(const std::vector<std::string>& placeholders) const {
  const auto found =
      std::find_if(placeholders.begin(), placeholders.end(), [&](const auto& p) { return is_parameter(p); });
  return found != placeholders.end() ? *found : "";
}

std::string Signature::of_target(const std::string& target) const {
  const auto found = placeholders_.find(target);
  return found != placeholders_.end() ? found->second : "";
}

std::vector<std::string> Signature::parameters() const {
  std::vector<std::string> all;
  for (const auto& [placeholder, entry] : entries_)
    if (entry.kind == "PARAMETER") all.push_back(placeholder);
  return all;
}

std::vector<std::string> arguments_of_call(const std::string& call) {
  std::vector<std::string> names;
  for (size_t at = call.find("args = "); at != std::string::npos; at = call.find('%', at + 1)) {
    if (call[at] != '%') continue;
    size_t end = at + 1;
    while (end < call.size() && of_name(call[end])) ++end;
    names.push_back(call.substr(at + 1, end - at - 1));
  }
  return names;
}

std::vector<std::string> folded_from(const ::onnx::ValueInfoProto& value) {
  const std::string text = metadata_of(value, kValueMetadata, "pkg.onnxscript.optimizer.folded_from");
  std::vector<std::string> names;
  size_t at = 0;
  for (std::string name = quoted(text, "", at, text.size()); !name.empty(); name = quoted(text, "", at, text.size()))
    names.push_back(name);
  return names;
}

}  // namespace nacre::tools::onnx_import
