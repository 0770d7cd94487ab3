#include "tools/commands/policies/policies.h"

#include <fmt/format.h>

#include "tools/base/nearest.h"
#include "tools/base/print.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_names.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

constexpr const char* kRules = R"(
S is a policy without quantization: float32 float16 bfloat16 float64 mixed_float16 mixed_bfloat16.
int8_from_float16 and int8_from_mixed_float16 are refused, as by Keras.

Which layers (rules match the layers of the network's file, before any folding):
  --policy POLICY           all of them; with --only OPS or --except OPS some, by op: dense, Gemm, FULLY_CONNECTED
  --policy-file F.json      Keras's JSON of a policy or of a DTypePolicyMap, tf.keras's of a Policy or PolicyV1, or
                            {"default": POLICY, "layers": {"NAME or PATTERN": POLICY, ...}, "only": [OPS]}
                            where POLICY is a name or {"policy": NAME, "FIELD": VALUE, ...}
  --set PATTERN=POLICY      those whose whole name matches; may be repeated; overwrites the two above
  --emit-policy F.json      writes what came of it, every layer with every field; keras=F.json: in Keras's JSON
An exact name goes before patterns. Two patterns that match one layer are an error, a pattern that matches none is, too,
but for Keras's JSON, where it is a warning.
Patterns are RE2's: 'block1/.*' is a subtree, 'block1' is that layer alone. A '=' in a pattern is written \x3d.
)";

// Breaks `text` into lines of at most `width` characters, each after `indent` spaces.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string lines, line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines + std::string(indent, ' ') + line + "\n";
}

Json record_json(const Policy& policy) {
  Json record = Json::object();
  for (const PolicyField& field : policy_fields()) record[field.key] = field.get(policy);
  return record;
}

Json forms_json() {
  Json forms = Json::array();
  for (const PolicyForm& f : policy_forms()) {
    Json form = {{"system", f.system}, {"form", f.form}, {"meaning", f.meaning}, {"example", f.example}};
    const std::string example = f.example;
    if (!example.empty() && example != "source") form["record"] = record_json(parse_policy(example).policy);
    forms.push_back(form);
  }
  Json fields = Json::array();
  for (const PolicyField& field : policy_fields()) fields.push_back({{"key", field.key}, {"expected", field.expected}});
  return {{"forms", forms}, {"names", policy_names()}, {"fields", fields}};
}

std::string forms_text() {
  std::string text, system;
  for (const PolicyForm& f : policy_forms()) {
    if (system != f.system) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", f.system);
    system = f.system;
    text += fmt::format("  {}\n", f.form) + wrapped(f.meaning, 6, 106);
    if (*f.example != '\0') text += fmt::format("      for example {}\n", f.example);
  }
  return text + kRules;
}

std::string record_text(const Policy& policy) {
  std::string text = policy_text(policy) + "\n";
  for (const PolicyField& field : policy_fields()) {
    const Json value = field.get(policy);
    text += fmt::format("  {:<20} {}\n", field.key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

void explain(const PoliciesOptions& options) {
  const ParsedPolicy parsed = parse_policy(*options.name, {"policy " + in_quotes(*options.name), kUsage});
  if (parsed.source) {
    if (options.json) return print_json({{"name", "source"}});
    return print("source\n  the layer stays as the network's file has it\n");
  }
  for (const std::string& warning : parsed.warnings) note(warning);
  if (options.json) return print_json({{"name", policy_text(parsed.policy)}, {"record", record_json(parsed.policy)}});
  print(record_text(parsed.policy));
}

}  // namespace

void policies(const PoliciesOptions& options) {
  if (options.name) return explain(options);
  options.json ? print_json(forms_json()) : print(forms_text());
}

}  // namespace nacre::tools
