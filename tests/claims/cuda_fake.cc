// Claim: the CUDA port on a simulated device, without a GPU, gives the host's numbers to the byte.
//
//   kernels   each entry of the reference, compiled as for the device, on random cases. Several threads, in several
//             orders, share its loops; outputs, updated operands and codes equal those of the host's one thread
//   infer     the networks of MLPerf Tiny and the digits sample, with every step on the device, in several runs
//   train     MLP, CNN, ResNet-8, transformer block and LSTM under several policies, and the networks of MLPerf Tiny;
//             `gradients`, `update` and `derive` run on the device. State and report are compared after every step
//   replay    each program is recorded once; a later run launches one graph per program, and neither allocates nor
//             records
//   step      the same with Trainer::step: gradients, update and derive are one graph, one launch and one wait
//   products  all of this again with products by cuBLASLt, which a simulated one makes in the order of the reference
//   faults    in a step of training, calls of five functions of the driver fail, one at a time: the step gives one
//             status, the state does not change unless `derive` failed, and the next step is the host's
//
//   cuda_fake [cases per entry] [seed]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ports/cuda/cuda_port.h"
#include "tests/claims/claims.h"
#include "tests/claims/cuda_fake.h"
#include "tests/differentiate/networks.h"
#include "tests/fake/fake_cublaslt.h"
#include "tests/fake/fake_driver.h"
#include "tests/model/network_runs.h"
#include "tests/model/networks.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"

namespace nacre::test {
namespace {

using fake::FakeDriver;

const void* const kModules[] = {FakeDriver::module()};

// ---- Networks ----

// Puts every step of each program at place 1, which is the device.
Buffer on_device(const Buffer& file) {
  Buffer placed = file;
  Model model;
  if (!model.open(placed.bytes()).ok()) return placed;
  const auto at = size_t(reinterpret_cast<const std::byte*>(model.steps().data()) - placed.data());
  auto* const steps = reinterpret_cast<StepRecord*>(placed.data() + at);
  for (size_t i = 0; i < model.steps().size(); ++i) steps[i].place = 1;
  repair(placed.bytes());
  return placed;
}

struct OnDevice {
  FakeDriver driver;
  fake::FakeCublasLt library{driver};
  cuda::Device device;
  const Port* ports[2] = {nullptr, nullptr};
  std::unique_ptr<Places> places;

  OnDevice(const fake::DriverOptions& options, bool products) : driver(options) {
    if (device.open(&driver.driver(), kModules, 0, products ? &library.library() : nullptr)) ports[1] = &device.port();
    places = std::make_unique<Places>(ports);
    places->keep(1);
  }
  bool give() { return places->give(1, device.allocate(size_t(places->bytes(1)))).ok(); }

  // Returns the calls that allocate or record.
  uint64_t slow_calls() const {
    uint64_t sum = 0;
    for (const char* symbol : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamBeginCapture_v2", "cuLaunchKernel",
                               "cuGraphInstantiateWithFlags", "cuModuleGetFunction"})
      sum += driver.calls(symbol);
    return sum;
  }
};

fake::DriverOptions options(std::byte poison) {
  return {.poison = poison, .simulation = {.most_threads = 9, .seed = uint64_t(poison)}};
}

void infer(CudaTally& tally, const std::string& name, const Buffer& file, bool products) {
  constexpr uint32_t kSeeds = 3;
  InferenceRun host;
  Bytes expected[kSeeds], found;
  bool ready = host.bind(file.bytes(), reference_kernels()).ok();
  for (uint32_t seed = 0; ready && seed < kSeeds; ++seed) ready = host.run(seed, &expected[seed]).ok();
  if (!tally.that(ready, name + ": runs on the host")) return;
  const Buffer placed = on_device(file);
  OnDevice gpu(options(std::byte{0xA5}), products);
  InferenceRun run;
  if (!tally.that(run.model.open(placed.bytes()).ok() &&
                      gpu.places->measure(run.model, 0, reference_kernels(), &run.sizes).ok() && gpu.give(),
                  name + ": measures for the device"))
    return;
  run.blocks.emplace(run.sizes);
  for (const uint32_t block : {kState, kStream}) std::ranges::fill(run.blocks->memory.block[block], std::byte{0});
  const Status bound = gpu.places->bind(&run.program, run.model, 0, reference_kernels(), run.blocks->memory);
  if (!tally.that(bound.ok(), name + ": binds for the device: " + gpu.device.sentence())) return;
  uint64_t slow = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed, ++tally.runs) {
    tally.that(run.run(seed, &found).ok() && found == expected[seed], name + ": outputs are the host's");
    if (seed == 0) slow = gpu.slow_calls();
  }
  const cuda::Device::Counts counts = gpu.device.counts();
  tally.kernels += counts.kernels;
  tally.products += counts.products;
  tally.that((counts.products > 0) == products, name + ": products are the library's where it is there");
  tally.that(counts.kernels == kSeeds * uint64_t{run.program.view().step_count} && counts.launches == kSeeds &&
                 counts.recordings == 1 && gpu.slow_calls() == slow,
             name + ": every step is the device's, in one graph that is recorded once");
  tally.that(gpu.driver.broken() == 0, name + ": nothing lies elsewhere");
  run.program.unbind();
}

constexpr int kSteps = 3;

// The most bytes that a training step may copy. To the device: inputs and streams, once for each step of a program
// that reads them. Back to the host: program outputs, streams, and tensors of region kStep of at most 16 bytes, such
// as counters. The state stays on the device.
struct Copied {
  uint64_t in = 0, out = 0;

  void add(const Model& model, Entry entry) {
    uint32_t index = 0;
    if (!model.find(entry, nullptr, &index).ok()) return;
    const ProgramView view = model.program(index);
    for (const StepRecord& step : model.steps().subspan(view.first_step, view.step_count))
      for (uint32_t k = 0; k < uint32_t{step.operand_count} + (step.guard != kNoIndex); ++k) {
        const uint32_t word = k < step.operand_count ? model.operands(step)[k] : step.guard;
        const uint32_t id = word & kOperandIdMask;
        if (id != kNoOperand) add(model, view, step, model.tensors()[id], Role(word >> 30));
      }
  }

 private:
  void add(const Model& model, const ProgramView& view, const StepRecord& step, const TensorRecord& r, Role role) {
    const TensorRecord& root = r.alias_of == kNoIndex ? r : model.tensors()[r.alias_of];
    const bool stream = r.region == Region::kStream, arena = r.region == Region::kArena;
    if (role == Role::kOut ? step.guard != kNoIndex && (stream || arena) : stream || (root.flags & kInput) != 0)
      in += r.bytes;
    if (role == Role::kIn || r.region == Region::kWeights) return;
    bool told = stream || (r.region == Region::kStep && r.bytes <= 16);
    for (const uint32_t id : view.outputs) {
      const TensorRecord& output = model.tensors()[id];
      told |= &(output.alias_of == kNoIndex ? output : model.tensors()[output.alias_of]) == &root;
    }
    out += told ? r.bytes : 0;
  }
};

// Makes calls of a step fail, one at a time: of each function calls 0 to 4, 8, 16 and 32, as far as a step has them.
void break_steps(CudaTally& tally, const std::string& name, TrainingSteps& t, OnDevice& gpu) {
  const Bytes before = t.state();
  for (const char* symbol :
       {"cuCtxSetCurrent", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuGraphLaunch", "cuStreamSynchronize"})
    for (uint64_t nth = 0; nth < 64; nth += nth < 4 ? 1 : nth) {
      gpu.driver.fail(symbol, nth);
      Status status = t.accumulate(0);
      const bool in_accumulate = gpu.driver.failed();
      if (status.ok()) status = t.trainer.commit(TrainingSteps::kRate, nullptr);
      if (!gpu.driver.failed()) {
        gpu.driver.fail("", 0);
        std::ranges::copy(before, t.trainer.state().begin());
        tally.that(t.trainer.restored().ok(), name + ": goes on");
        break;
      }
      ++tally.faults;
      tally.that(status.code == Code::kPortFailed, name + ": a call that fails is one status");
      uint32_t derive = 0;
      const bool derived =
          t.model.find(Entry::kDerive, nullptr, &derive).ok() && status.index >= t.model.program(derive).first_step;
      tally.that(t.state() == before || (!in_accumulate && derived), name + ": the state is as it was");
      std::ranges::copy(before, t.trainer.state().begin());
      tally.that(t.trainer.restored().ok(), name + ": goes on behind a fault");
    }
}

void train(CudaTally& tally, const std::string& name, const Buffer& file, bool products, bool faults) {
  TrainingSteps host;
  std::vector<Bytes> expected;
  bool ready = host.measure(file.bytes(), reference_kernels()).ok() && host.start(reference_kernels()).ok();
  for (int i = 0; ready && i < kSteps; ++i) {
    Trainer::Report report;
    ready = host.step(i, &report).ok();
    expected.push_back(told(host, report));
  }
  if (!tally.that(ready, name + ": trains on the host")) return;
  tally.that(expected.front() != expected.back(), name + ": learns");
  std::vector<Bytes> by_step;
  for (int i = kSteps; ready && i < 2 * kSteps; ++i) {
    Trainer::Report report;
    ready = host.whole_step(i, &report).ok();
    by_step.push_back(told(host, report));
  }
  const Buffer placed = on_device(file);
  OnDevice gpu(options(std::byte{0x5A}), products);
  TrainingSteps t;
  if (!tally.that(t.measure(placed.bytes(), reference_kernels(), gpu.places.get()).ok() && gpu.give() &&
                      t.start(reference_kernels(), gpu.places.get()).ok(),
                  name + ": is bound to the device: " + gpu.device.sentence()))
    return;
  Copied copied;
  for (int i = 0; i < TrainingSteps::kMicroBatches; ++i) copied.add(t.model, Entry::kGradients);
  for (const Entry entry : {Entry::kUpdate, Entry::kDerive}) copied.add(t.model, entry);
  uint64_t slow = 0, recordings = 0;
  for (int i = 0; i < kSteps; ++i, ++tally.steps) {
    const uint64_t in = gpu.driver.bytes_in(), out = gpu.driver.bytes_out();
    Trainer::Report report;
    tally.that(t.step(i, &report).ok(), name + ": takes a step: " + gpu.device.sentence());
    const uint64_t copied_in = gpu.driver.bytes_in() - in, copied_out = gpu.driver.bytes_out() - out;
    // A refused step reads the state, whose counters tell why.
    if (i > 0 && !(faults && i == 1))
      tally.that(copied_in <= copied.in && (copied_out <= copied.out || !report.applied),
                 name + ": a step copies its inputs to the device, and nothing that the device has");
    if (i > 0) tally.that(told(t, report) == expected[size_t(i)], name + ": state and report are the host's");
    tally.bytes_in += i + 1 == kSteps ? copied_in : 0;
    tally.bytes_out += i + 1 == kSteps ? copied_out : 0;
    tally.state_bytes += i + 1 == kSteps ? t.trainer.state().size() : 0;
    if (i == 0) {
      slow = gpu.slow_calls(), recordings = gpu.device.counts().recordings;
      if (faults) {
        break_steps(tally, name, t, gpu);
        tally.that(gpu.slow_calls() == slow, name + ": what a fault interrupts is not recorded again");
      }
    }
  }
  uint32_t programs = 0, found = 0;
  for (const Entry entry : {Entry::kGradients, Entry::kUpdate, Entry::kDerive})
    programs += t.model.find(entry, nullptr, &found).ok();
  tally.that(recordings == programs && gpu.slow_calls() == slow,
             name + ": each program is recorded once, and a later step allocates and records nothing");
  for (int i = 0; i < kSteps; ++i, ++tally.steps) {
    const uint64_t launches = gpu.driver.calls("cuGraphLaunch"), waits = gpu.driver.calls("cuStreamSynchronize");
    Trainer::Report report;
    slow = gpu.slow_calls();
    tally.that(t.whole_step(kSteps + i, &report).ok(), name + ": takes a step at once: " + gpu.device.sentence());
    if (i + 1 == kSteps)
      tally.that(gpu.driver.calls("cuGraphLaunch") == launches + 1 && gpu.slow_calls() == slow &&
                     (!report.applied || gpu.driver.calls("cuStreamSynchronize") == waits + 1),
                 name + ": a step is one launch and one wait");
    tally.that(told(t, report) == by_step[size_t(i)], name + ": state and report are the host's");
  }
  tally.that(gpu.driver.broken() == 0, name + ": nothing lies elsewhere");
  tally.joined += gpu.device.counts().joined;
  tally.turned += gpu.device.counts().turned;
  tally.kernels += gpu.device.counts().kernels;
  tally.products += gpu.device.counts().products;
  tally.that((gpu.device.counts().products > 0) == products, name + ": products are the library's where it is there");
}

// ---- The claim ----

std::vector<uint8_t> compiled(const PeerNetwork& network, const char* policy) {
  using namespace nacre::tools;
  TrainingOptions training;
  training.loss.kind = network.squared_error ? Loss::kSquaredError : Loss::kSoftmaxCrossEntropy;
  training.optimizer.kind = network.adam ? Optimizer::kAdam : Optimizer::kMomentum;
  CompileOptions compiling;
  compiling.target.name = "cuda/sm90";
  compiling.policies = parse_policy_options({.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}});
  return compile_training(network.graph, training, compiling).bytes;
}

constexpr struct {
  Network network;
  const char* loss;
} kTrained[] = {{{"AD", "models/mlperf_tiny/ad01_fp32.tflite", false, 0}, "squared_error"},
                {{"KWS", "models/mlperf_tiny/kws_ref_model.tflite", false, 0}, "softmax_cross_entropy"},
                {{"IC", "models/mlperf_tiny/pretrainedResnet.tflite", false, 0}, "softmax_cross_entropy"},
                {{"VWW", "models/mlperf_tiny/vww_96_float.tflite", false, 0}, "squared_error"},
                {{"str_ww", "models/mlperf_tiny/str_ww_ref_model.tflite", false, 0}, "softmax_cross_entropy"}};

// Trains the networks of MLPerf Tiny.
void train_networks(CudaTally& tally, int* networks, int* missing) {
  for (const auto& [network, loss] : kTrained) {
    Buffer file;
    std::string why;
    const std::string options = std::string("--optimizer adam --batch 2 --policy mixed_bfloat16 --train ") + loss;
    if (!convert(network, &file, &why, options)) {
      std::printf("%s: %s\n", network.name, why.c_str());
      ++*missing;
      continue;
    }
    ++*networks;
    for (const bool products : {false, true})
      train(tally, std::string(network.name) + " trained" + (products ? ", with products" : ""), file, products, false);
  }
}

int claim(int cases, uint64_t seed) {
  CudaTally tally;
  int missing = 0, networks = 0;
  try_kernels_on_threads(tally, cases, seed);
  for (const Network& network : kNetworks) {
    Buffer file;
    std::string why;
    if (!convert(network, &file, &why, "")) {
      std::printf("%s: %s\n", network.name, why.c_str());
      ++missing;
      continue;
    }
    ++networks;
    for (const bool products : {false, true}) infer(tally, network.name, file, products);
  }
  const Network& digits = *std::ranges::find_if(kNetworks, &Network::sample);
  for (const char* policy :
       {"float16", "bfloat16", "int8_from_float32", "int8/weights_from_float32", "float8/current_from_float32"}) {
    Buffer file;
    std::string why;
    if (!tally.that(convert(digits, &file, &why, std::string("--policy ") + policy), policy + why)) continue;
    ++networks;
    infer(tally, std::string(digits.name) + " in " + policy, file, !std::string(policy).starts_with("int8/weights"));
  }
  const char* const shared = std::getenv("NACRE_SHARED");
  const std::filesystem::path models = std::filesystem::path(shared == nullptr ? "" : shared) / "models/mlperf_tiny";
  for (const char* name : kPeerNetworks)
    for (const char* policy :
         {"float32", "mixed_bfloat16", "mixed_float16", "float8/16_from_float32", "int8/static_from_float32"}) {
      if (sanitized() && std::string(name) == "resnet8") continue;
      try {
        const std::vector<uint8_t> bytes = compiled(peer_network(name, models), policy);
        Buffer file(bytes.size());
        std::memcpy(file.bytes().data(), bytes.data(), bytes.size());
        ++networks;
        for (const bool products : {false, true})
          train(tally, std::string(name) + " trained in " + policy + (products ? ", with products" : ""), file,
                products, std::string(name) == "mlp");
      } catch (const tools::Error& error) {
        std::printf("%s, %s: %s\n", name, policy, error.what());
        ++missing;
      }
    }
  if (!sanitized()) train_networks(tally, &networks, &missing);
  const auto n = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  if (tally.failures != 0 || networks == 0 || tally.cases == 0) {
    std::printf("CLAIM cuda_fake NOT SHOWN: %llu checks failed, %d networks\n", n(tally.failures), networks);
    return 1;
  }
  std::printf(
      "CLAIM cuda_fake %s: %llu cases of %zu entries give the host's bytes on threads in two orders, the loops of %llu "
      "ops "
      "are shared; %d networks (%d missing), every step through the CUDA port: %llu runs and %llu training steps equal "
      "to the host's to the byte (the last of each network copied %llu bytes to the device and %llu back, of %llu of "
      "state), %llu kernels in graphs that are recorded once, %llu of them products by a simulated "
      "cuBLASLt, %llu with others in one launch, %llu of codes that are turned as they are made; %llu calls that fail "
      "end in one status each and leave the state as it was\n",
      missing == 0 ? "shown" : "partly shown", n(tally.cases), fake::simulated_kernels({}).entries.size(),
      n(tally.threads_share), networks, missing, n(tally.runs), n(tally.steps), n(tally.bytes_in), n(tally.bytes_out),
      n(tally.state_bytes), n(tally.kernels), n(tally.products), n(tally.joined), n(tally.turned), n(tally.faults));
  return missing == 0 ? 0 : 77;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_fake) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : nacre::test::generated(16);
  return nacre::test::claim(cases, count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1);
}
