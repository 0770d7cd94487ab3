#include "tools/report/comparison_json.h"

#include "tools/base/names.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {
namespace {

const ReportLayer* layer_of(const ProgramReport& report, uint32_t step) {
  const uint32_t layer = report.steps()[step].layer;
  return layer == kNoIndex ? nullptr : &report.layers()[layer];
}

void add_error(Json& json, const ErrorMeasure& e, uint64_t saturated) {
  json.update({{"elements", e.elements()},
               {"equal", e.equal()},
               {"not_finite", e.not_finite()},
               {"sqnr_db", finite_or_null(e.sqnr_db())},
               {"largest_error", e.largest()},
               {"relative_error", finite_or_null(e.relative())},
               {"cosine", e.cosine()},
               {"saturated", saturated}});
}

Json side_json(const ProgramReport& report, uint32_t tensor) {
  const TensorRecord& r = report.tensor(tensor);
  return {{"tensor", tensor},
          {"name", report.loaded().tensor_name(tensor)},
          {"type", name_of(r.element)},
          {"shape", std::vector<int32_t>(r.dims, r.dims + r.rank)}};
}

}  // namespace

std::string layer_name_of(const ProgramReport& report, uint32_t step) {
  const ReportLayer* layer = layer_of(report, step);
  return layer == nullptr ? "" : layer->name;
}

std::string policy_name_of(const ProgramReport& report, uint32_t step) {
  const ReportLayer* layer = layer_of(report, step);
  return layer == nullptr ? "" : policy_name(layer->policy);
}

Json comparison_json(const ProgramReport& a, const ProgramReport& b, const Comparison& comparison) {
  Json tensors = Json::array(), outputs = Json::array(), unmatched = Json::array();
  for (const ComparedTensor& t : comparison.tensors) {
    Json json = {{"step", t.step},
                 {"layer", layer_name_of(a, t.step)},
                 {"op", a.steps()[t.step].op_name},
                 {"policy_a", policy_name_of(a, t.step)},
                 {"policy_b", policy_name_of(b, t.step_b)},
                 {"a", side_json(a, t.a)},
                 {"b", side_json(b, t.b)}};
    add_error(json, t.error, t.saturated);
    tensors.push_back(std::move(json));
  }
  for (const ComparedOutput& o : comparison.outputs) {
    Json json = {{"name", a.names().outputs[o.a]},
                 {"a", side_json(a, a.view().outputs[o.a])},
                 {"b", side_json(b, b.view().outputs[o.b])}};
    if (o.rows > 0) json.update({{"rows", o.rows}, {"same_largest", o.same_best}});
    add_error(json, o.error, o.saturated);
    outputs.push_back(std::move(json));
  }
  for (const Unmatched& u : comparison.unmatched) {
    Json json = {{"in", u.in_a ? "a" : "b"}, {"step", u.step}};
    json.update(side_json(u.in_a ? a : b, u.tensor));
    if (!u.why.empty()) json["why"] = u.why;
    unmatched.push_back(std::move(json));
  }
  return {{"a", a.loaded().path()},
          {"b", b.loaded().path()},
          {"kernels_a", comparison.by_a.kernels},
          {"kernels_b", comparison.by_b.kernels},
          {"threads", comparison.by_a.threads},
          {"samples", comparison.samples},
          {"notes", comparison.notes},
          {"tensors", tensors},
          {"outputs", outputs},
          {"unmatched", unmatched}};
}

}  // namespace nacre::tools
