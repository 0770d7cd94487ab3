#include "tools/evaluate/gpu_estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/evaluate/gpu_advice.h"
#include "tools/evaluate/training_memory.h"
#include "tools/graph/op_facts.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {
namespace {

class Estimator {
 public:
  Estimator(const LoadedModel& loaded, const GpuArchitecture& gpu) : loaded_(loaded), model_(loaded.model()) {
    estimate_.gpu = &gpu;
    estimate_.trains = trains(loaded);
  }

  GpuEstimate run() {
    uint32_t program = program_of(estimate_.trains ? Entry::kGradients : Entry::kInfer);
    if (program == kNoIndex && estimate_.trains) program = program_of(Entry::kUpdate);  // --update immediate
    if (program == kNoIndex) program = loaded_.infer_program();                         // throws if there is none
    estimate_.batch = model_.program(program).batch;
    add_steps(program);
    add_copies(program);
    if (estimate_.trains && model_.program(program).entry != Entry::kUpdate) add_steps(program_of(Entry::kUpdate));
    finish();
    return std::move(estimate_);
  }

 private:
  // Returns the program for the target; else for the host, else for any target; else kNoIndex.
  uint32_t program_of(Entry entry) const {
    uint32_t index = 0;
    if (model_.find(entry, estimate_.gpu->target, &index).ok()) return index;
    if (model_.find(entry, "host", &index).ok()) return index;
    return model_.find(entry, nullptr, &index).ok() ? index : kNoIndex;
  }

  void add_steps(uint32_t program) {
    const ProgramView view = model_.program(program);
    for (uint32_t i = 0; i < view.step_count; ++i) {
      const StepRecord& step = model_.steps()[view.first_step + i];
      if (const std::optional<Product> product = product_of(model_, step)) add_product(i, step, *product);
      else if (!is_product_gradient(model_, step) || !add_pass(step)) add_other(step);
    }
  }

  void add_product(uint32_t index, const StepRecord& step, const Product& product) {
    GpuLayer layer = {.name = fmt::format("step {}", index), .step = index, .op = step.op};
    if (step.layer != kNoIndex) {
      LayerName name = loaded_.layer(step.layer);
      layer.name = std::move(name.name), layer.policy = name.policy;
    }
    layer.product = product;
    layer.form = form_of(layer.policy, estimate_.trains);
    layers_of_.push_back(step.layer);
    estimate_.layers.push_back(std::move(layer));
  }

  // Adds a gradient's product to the last layer of its name that does not yet have both gradients.
  bool add_pass(const StepRecord& step) {
    for (size_t i = estimate_.layers.size(); i-- > 0;)
      if (layers_of_[i] == step.layer && estimate_.layers[i].passes < 3) return ++estimate_.layers[i].passes, true;
    return false;
  }

  void add_other(const StepRecord& step) {
    estimate_.operations += step_work(model_, step).operations;
    if (facts_of(step.op).prepares_operands) return;
    ++estimate_.other_steps;
    estimate_.other_us += step_us(model_, step, *estimate_.gpu);
  }

  void add_copies(uint32_t program) {
    const ProgramView view = model_.program(program);
    estimate_.copies_us = kGraphUs;
    for (const auto ids : {view.inputs, view.outputs})
      for (const uint32_t id : ids)
        estimate_.copies_us += kCopyUs + double(model_.tensors()[id].bytes) / kCopyBytes * 1e6;
  }

  void finish() {
    const GpuArchitecture& gpu = *estimate_.gpu;
    estimate_.gpu_us = estimate_.copies_us + estimate_.other_us;
    for (GpuLayer& layer : estimate_.layers) {
      const auto us = [&](const ProductForm& form) { return product_us(layer.product, layer.passes, form, gpu); };
      estimate_.operations += layer.passes * layer.product.operations();
      layer.half_us = us({.type = half_type(gpu)});
      if (gpu.float8 > 0) layer.float8_us = us({.type = ElementType::kFloat8E4M3});
      if (layer.form) layer.policy_us = us(*layer.form);
      estimate_.gpu_us += layer.form ? layer.policy_us : layer.half_us;
      advise(estimate_, &layer);
    }
    estimate_.host_us = estimate_.operations / kHostOperations * 1e6;
  }

  const LoadedModel& loaded_;
  const Model& model_;
  GpuEstimate estimate_;
  std::vector<uint32_t> layers_of_;  // for each of estimate_.layers: the index in the model file, or kNoIndex
};

}  // namespace

GpuEstimate estimate_gpu(const LoadedModel& model, const GpuArchitecture& gpu) { return Estimator(model, gpu).run(); }

}  // namespace nacre::tools
