// Claim: weights in another layout than row-major are the same bytes, whoever packs them, and change no result. A
// port of the tests (tests/packed_port.h) has dense and conv kernels, in float and int8, that read layouts of their
// own.
//
//   converter   a file compiled for the port holds the packed weights, and its steps read them in place
//   bind        a file compiled for no port is bound to the port, and Places packs the same bytes
//   derive      when a network trains, the program `derive` packs what update has made, for infer and gradients
//
// Outputs, reports and states equal those of the reference kernels on the row-major file, to the byte. All is tested
// again with a port that has a memory of its own.
#include "tests/packed_port.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tests/claims/claims.h"
#include "tests/fake/fake_port.h"
#include "tests/model/network_runs.h"
#include "tests/model/networks.h"
#include "tests/run_tool.h"
#include "tools/compile/export.h"
#include "tools/compile/training.h"
#include "tools/graph/layouts.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::test {
namespace {

constexpr uint32_t kSeeds = 3;
constexpr int kSteps = 4;

std::span<const KernelSet* const> port_first() {
  static const KernelSet* const kSets[] = {&packed_kernels(), &reference::kernels(), &reference::training_kernels()};
  return kSets;
}

struct Tally {
  uint64_t networks = 0, weights = 0, at_bind = 0, derived = 0, shared = 0, runs = 0, steps = 0, failures = 0;

  bool that(bool holds, const std::string& what) {
    if (!holds) ++failures, std::printf("FAIL %s\n", what.c_str());
    return holds;
  }
};

tools::CompileOptions for_port() {
  tools::CompileOptions options;
  options.target.name = "packed";
  options.target.kernels.assign(port_first().begin(), port_first().end());
  return options;
}

Buffer buffer(const std::vector<uint8_t>& bytes) { return Buffer(std::as_bytes(std::span(bytes))); }

// Returns by name the bytes of the region's tensors that are not row-major.
std::map<std::string, Bytes> packed_in(const tools::LoadedModel& model, Region region,
                                       const std::function<const std::byte*(uint32_t)>& data) {
  std::map<std::string, Bytes> found;
  const auto tensors = model.model().tensors();
  for (uint32_t id = 0; id < tensors.size(); ++id)
    if (tensors[id].region == region && tensors[id].layout != Layout::kRowMajor)
      found[model.tensor_name(id)] = Bytes(data(id), data(id) + tensors[id].bytes);
  return found;
}

std::map<std::string, Bytes> packed_weights_of(const std::vector<uint8_t>& bytes) {
  const tools::LoadedModel model(bytes, "packed", "");
  return packed_in(model, Region::kWeights, [&](uint32_t id) { return model.model().weights(id); });
}

// Returns whether the bytes occur in the block, at a multiple of `alignment`.
bool holds_aligned(std::span<const std::byte> block, uint32_t alignment, const Bytes& bytes) {
  for (size_t at = 0; at + bytes.size() <= block.size(); at += alignment)
    if (std::memcmp(block.data() + at, bytes.data(), bytes.size()) == 0) return true;
  return false;
}

void expect_outputs(Tally& tally, const std::string& name, InferenceRun& run, const Bytes (&expected)[kSeeds]) {
  Bytes found;
  for (uint32_t seed = 0; seed < kSeeds; ++seed, ++tally.runs)
    tally.that(run.run(seed, &found).ok() && found == expected[seed], name + ": outputs are the reference's");
}

// Binds the row-major file to a port that packs. If the port has a memory of its own, the packed bytes must be there.
void bind_to(Tally& tally, const std::string& name, const Buffer& file, fake::FakePort* fake,
             const std::map<std::string, Bytes>& packed, const Bytes (&expected)[kSeeds]) {
  const Port* const ports[] = {fake == nullptr ? &packed_port() : &fake->port()};
  Places places(ports);
  InferenceRun run;
  if (!tally.that(
          run.model.open(file.bytes()).ok() && places.measure(run.model, 0, reference_kernels(), &run.sizes).ok(),
          name + ": measures"))
    return;
  run.blocks.emplace(run.sizes);
  if (fake != nullptr) (void)places.give(0, fake->allocate(size_t(places.bytes(0))));
  if (!tally.that(places.bind(&run.program, run.model, 0, reference_kernels(), run.blocks->memory).ok(),
                  name + ": binds"))
    return;
  for (const auto& [tensor, bytes] : packed) {
    tally.that(holds_aligned(run.blocks->memory.block[kDerived], places.alignment(), bytes),
               name + ": bind packs " + tensor);
    ++tally.at_bind;
  }
  expect_outputs(tally, name, run, expected);
  if (fake != nullptr) tally.that(fake->counts().steps > 0 && fake->counts().broken == 0, name + ": runs on the port");
  run.program.unbind();
}

void infer(Tally& tally, const std::string& name, const tools::Graph& graph) {
  const Buffer file = buffer(tools::compile(graph, {}).bytes);
  const std::vector<uint8_t> for_it = tools::compile(graph, for_port()).bytes;
  const Buffer packed_file = buffer(for_it);
  const auto packed = packed_weights_of(for_it);
  tally.that(!packed.empty(), name + ": the converter packs");
  tally.weights += packed.size();
  Bytes expected[kSeeds];
  InferenceRun host;
  if (!tally.that(host.bind(file.bytes(), reference_kernels()).ok(), name + ": binds on the host")) return;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) tally.that(host.run(seed, &expected[seed]).ok(), name + ": runs");
  InferenceRun none, own;
  tally.that(none.bind(packed_file.bytes(), reference_kernels()).code == Code::kNoKernel,
             name + ": the reference does not read packed weights");
  if (tally.that(own.bind(packed_file.bytes(), port_first()).ok(), name + ": the packed file binds")) {
    expect_outputs(tally, name + ", packed by the converter", own, expected);
    tally.that(own.sizes.bytes[kDerived] == 0, name + ": what the file holds is used in place");
  }
  bind_to(tally, name + ", packed at bind", file, nullptr, packed, expected);
  const KernelSet* const sets[] = {&packed_kernels()};
  fake::FakePort fake(sets);
  bind_to(tally, name + ", packed for a port's own memory", file, &fake, packed, expected);
}

// Checks that every packed tensor of `derived` is what Pack makes of the parameter with which its name begins, or of
// the parameter's cast copy.
void check_derived(Tally& tally, const std::string& name, const tools::LoadedModel& model, TrainingSteps& t) {
  const auto tensors = model.model().tensors();
  const std::byte* const derived = t.blocks->memory.block[kDerived].data();
  for (uint32_t id = 0; id < tensors.size(); ++id) {
    if (tensors[id].layout == Layout::kRowMajor || tensors[id].region != Region::kDerived) continue;
    const std::string made = model.tensor_name(id);
    uint32_t of = kNoIndex;
    for (uint32_t other = 0; other < tensors.size(); ++other) {
      const bool row_major = tensors[other].layout == Layout::kRowMajor &&
                             (tensors[other].region == Region::kState || tensors[other].region == Region::kDerived);
      const size_t length = model.tensor_name(other).size();
      if (row_major && made.rfind(model.tensor_name(other) + "/", 0) == 0 &&
          (of == kNoIndex || length > model.tensor_name(of).size()))
        of = other;
    }
    if (!tally.that(of != kNoIndex, name + ": " + made + " is of a parameter")) continue;
    const std::vector<uint8_t> rows = tools::row_major_bytes(tensors[id], derived + tensors[id].offset);
    const std::byte* const from = tensors[of].region == Region::kState ? t.trainer.state().data() : derived;
    tally.that(
        rows.size() == tensors[of].bytes && std::memcmp(rows.data(), from + tensors[of].offset, rows.size()) == 0,
        name + ": " + made + " is of " + model.tensor_name(of));
    ++tally.derived;
  }
}

// Counts the packed tensors that both `infer` and `gradients` read.
uint64_t shared_by_both(const Model& model) {
  uint64_t readers[2] = {}, shared = 0;
  for (uint32_t id = 0; id < model.tensors().size(); ++id) {
    if (model.tensors()[id].layout == Layout::kRowMajor || model.tensors()[id].region != Region::kDerived) continue;
    for (uint32_t p = 0; p < 2; ++p) {
      uint32_t index = 0;
      readers[p] = 0;
      if (!model.find(p == 0 ? Entry::kInfer : Entry::kGradients, nullptr, &index).ok()) continue;
      const ProgramView view = model.program(index);
      for (uint32_t i = view.first_step; i < view.first_step + view.step_count; ++i)
        for (uint32_t k = 0; k < model.steps()[i].operand_count; ++k)
          readers[p] += (model.operands(model.steps()[i])[k] & kOperandIdMask) == id;
    }
    shared += readers[0] > 0 && readers[1] > 0;
  }
  return shared;
}

void train(Tally& tally, const std::string& name, const std::string& path, const char* policy) {
  const tools::Graph graph = tools::load_network(path, {.batch = 8, .io_nhwc = false}, tools::kSimplifyToTrain);
  tools::TrainingOptions training;
  tools::CompileOptions generic, port = for_port();
  generic.policies = port.policies = tools::parse_policy_options({.policy = policy});
  const auto of_converter = packed_weights_of(tools::compile(graph, port).bytes);
  const Buffer file = buffer(tools::compile_training(graph, training, generic).bytes);
  const std::vector<uint8_t> bytes = tools::compile_training(graph, training, port).bytes;
  const Buffer packed_file = buffer(bytes);
  const tools::LoadedModel loaded(bytes, name, "");
  TrainingSteps host, own;
  bool ready = host.measure(file.bytes(), reference_kernels()).ok() && host.start(reference_kernels()).ok();
  ready = ready && own.measure(packed_file.bytes(), port_first()).ok() && own.start(port_first()).ok();
  if (!tally.that(ready, name + ": trains")) return;
  const std::byte* const derived = own.blocks->memory.block[kDerived].data();
  const auto at_start =
      packed_in(loaded, Region::kDerived, [&](uint32_t id) { return derived + loaded.model().tensors()[id].offset; });
  tally.that(!at_start.empty(), name + ": derive packs");
  uint64_t compared = 0;
  for (const auto& [tensor, packed] : at_start)
    if (const auto found = of_converter.find(tensor); found != of_converter.end())
      compared +=
          tally.that(found->second == packed, name + ": derive makes of " + tensor + " what the converter does");
  tally.that(compared == of_converter.size(), name + ": what the converter packs derive packs too");
  const uint64_t shared = shared_by_both(loaded.model());
  tally.that(shared > 0, name + ": infer and gradients read one copy");
  tally.shared += shared;
  for (int i = 0; i < kSteps; ++i, ++tally.steps) {
    Trainer::Report a, b;
    tally.that(host.step(i, &a).ok() && own.step(i, &b).ok() &&
                   host.trainer.state().size() == own.trainer.state().size() && told(host, a) == told(own, b),
               name + ": state and report are the reference's");
    check_derived(tally, name, loaded, own);
  }
}

// Uses a training file for the port in two more ways: exported for inference, where weights are row-major again; and
// planned with repeated steps, which counts the work of the port's kernels.
void use_elsewhere(Tally& tally, const std::string& name, const std::string& path) {
  const tools::Graph graph = tools::load_network(path, {.batch = 8, .io_nhwc = false}, tools::kSimplifyToTrain);
  tools::TrainingOptions training;
  const std::vector<uint8_t> bytes = tools::compile_training(graph, training, for_port()).bytes;
  const Buffer file = buffer(bytes);
  const tools::LoadedModel loaded(bytes, name, "");
  TrainingSteps t;
  if (!tally.that(t.measure(file.bytes(), port_first()).ok() && t.start(port_first()).ok(), name + ": binds")) return;
  const tools::Graph deployed = tools::inference_graph(loaded, t.trainer.infer());
  tools::check(deployed);
  uint64_t found = 0;
  for (const tools::Value& v : deployed.values)
    for (uint32_t id = 0; v.constant() && id < loaded.model().tensors().size(); ++id) {
      const TensorRecord& r = loaded.model().tensors()[id];
      const std::string parameter = loaded.tensor_name(id);
      if (r.region != Region::kState || v.name.rfind(parameter + "/", 0) != 0) continue;
      found += tally.that(
          v.data->size() == r.bytes && std::memcmp(v.data->data(), t.trainer.state().data() + r.offset, r.bytes) == 0,
          name + ": " + v.name + " is deployed in row-major order");
    }
  tally.that(found > 0, name + ": deploys what was packed");
  training.arena_limit = 1;
  const uint64_t work = tools::compile_training(graph, training, {}).rematerialized.work_before,
                 for_it = tools::compile_training(graph, training, for_port()).rematerialized.work_before;
  tally.that(work > 0 && work == for_it, name + ": steps with packed weights cost what they cost");
}

int claim() {
  Tally tally;
  int missing = 0;
  for (const Network& network : kNetworks) {
    const std::string path = network.sample ? tools::project_path(network.file) : tools::shared_path(network.file);
    if (!std::filesystem::exists(path)) {
      ++missing;
      continue;
    }
    ++tally.networks;
    infer(tally, network.name, tools::load_network(path));
    if (!network.sample) continue;
    use_elsewhere(tally, std::string(network.name) + " for the port", path);
    for (const char* policy : {"float32", "mixed_float16"})
      train(tally, std::string(network.name) + " trained in " + policy, path, policy);
  }
  if (tally.failures != 0 || tally.networks == 0) {
    std::printf("CLAIM packed_weights NOT SHOWN: %llu checks failed, %llu networks\n",
                static_cast<unsigned long long>(tally.failures), static_cast<unsigned long long>(tally.networks));
    return 1;
  }
  std::printf(
      "CLAIM packed_weights %s: %llu networks (%d missing): %llu weights packed by the converter, %llu times the "
      "same bytes at bind, %llu by derive behind %llu training steps, %llu of them read by infer and gradients; "
      "%llu runs and all steps equal to the reference's to the byte\n",
      missing == 0 ? "shown" : "partly shown", static_cast<unsigned long long>(tally.networks), missing,
      static_cast<unsigned long long>(tally.weights), static_cast<unsigned long long>(tally.at_bind),
      static_cast<unsigned long long>(tally.derived), static_cast<unsigned long long>(tally.steps),
      static_cast<unsigned long long>(tally.shared), static_cast<unsigned long long>(tally.runs));
  return missing == 0 ? 0 : 77;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(packed_weights) { return nacre::test::claim(); }
