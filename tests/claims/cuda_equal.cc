// Claims about a real GPU, through the CUDA port; NOT SHOWN, with the port's sentence, where there is none.
//
//   cuda_equal    each entry of the reference on random cases, and the models given: integers and codes are those of
//                 the host to the bit; floats within the bounds below, and how many of them to the bit
//   cuda_trains   the training models given: after 200 steps the loss is within 1% of the host's; a step whose input is
//                 infinite is refused where the host refuses it, and leaves the state as it was but for the loss scale
//                 and its counters
//
//   cuda_equal [cases per entry] [seed] [MODEL..]
//   cuda_trains MODEL..                                  both with "simulated" first: on the tests' device
//
// Each once on the port's own kernels, and once with products by cuBLASLt.
//
// Bounds of a float of type T: one unit of T's last place where the exact result lies between two, and 32 2^-24 of the
// largest magnitude of the tensor: functions of CUDA's mathematics are within 2 ulp, those of the host within 1. With
// cuBLASLt, which sums in its own order, 1e-5 of it, and behind a product of float8 codes, whose sums have fewer bits
// on Tensor Cores, 4e-3.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/claims/cuda_models.h"
#include "tests/claims/cuda_steps.h"

namespace nacre::test {
namespace {

constexpr double kOwnShare = 32 * 0x1p-24, kProductShare = 1e-5, kFloat8Share = 4e-3;

struct Tally {
  uint64_t cases = 0, elements = 0, exact = 0, models = 0, failures = 0, products = 0;
  double share = kOwnShare;  // of the largest magnitude of a tensor

  bool that(bool holds, const std::string& what) {
    if (!holds && ++failures <= 30) std::printf("FAIL %s\n", what.c_str());
    return holds;
  }
};

unsigned long long n(uint64_t v) { return v; }

// ---- Bounds ----

double unit_of(ElementType type) {  // 2^-bits of the significand behind its first
  switch (type) {
    case ElementType::kFloat64: return 0x1p-52;
    case ElementType::kFloat32: return 0x1p-23;
    case ElementType::kFloat16: return 0x1p-10;
    case ElementType::kBfloat16: return 0x1p-7;
    case ElementType::kFloat8E4M3: return 0x1p-3;
    case ElementType::kFloat8E5M2: return 0x1p-2;
    default: return 0;
  }
}

bool within(const Array& got, const Array& want, Tally& tally) {
  const double unit = unit_of(want.element);
  const double share = want.element == ElementType::kFloat64 ? tally.share * 0x1p-29 : tally.share;
  if (unit == 0) {
    tally.elements += uint64_t(want.elements()), tally.exact += uint64_t(want.elements());
    return got.bytes == want.bytes;
  }
  double largest = 0;
  for (int64_t i = 0; i < want.elements(); ++i)
    if (std::isfinite(want.real(i))) largest = std::max(largest, std::abs(want.real(i)));
  bool all = true;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const double a = got.real(i), b = want.real(i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    ++tally.elements, tally.exact += same;
    all &= same || std::abs(a - b) <= unit * std::abs(b) + share * largest;
  }
  return all;
}

// ---- Single kernels ----

// As execute(), with every operand in the device's memory.
Execution execute_on(const Port& port, std::span<std::byte> memory, const KernelEntry& entry, const Step& step,
                     const Execution& host) {
  std::vector<Array> arrays = step.inputs;
  const size_t inputs = arrays.size();
  arrays.insert(arrays.end(), host.outputs.begin(), host.outputs.end());
  Execution result;
  StepOnDevice on_device;
  if (result.code = on_device.place(port, memory, entry, step.words, arrays, inputs); result.code != Code::kOk)
    return result;
  result.code = on_device.run([&] {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const bool updated = !variadic(entry) && i < inputs && (entry.operands[i].role & 3) == uint8_t(Role::kUpdate);
      if (!arrays[i].present() || (i < inputs && !updated)) continue;
      std::vector<Array>& to = updated ? result.updated : result.outputs;
      to.push_back(arrays[i]);
      const Code copied = port.copy(port.context, CopyDirection::kFromPort, to.back().bytes.data(),
                                    on_device.operand(i).data, to.back().bytes.size());
      if (copied != Code::kOk) return copied;
    }
    return Code::kOk;
  });
  return result;
}

void kernels(Tally& tally, cuda::Device& device, int cases, uint64_t seed) {
  const std::vector<reference::NamedEntry> named = all_entries();
  const std::span<const KernelEntry* const> entries = device.port().set->entries;
  const std::span<std::byte> memory = device.allocate(size_t{16} << 20);
  if (!tally.that(!memory.empty() && named.size() == entries.size(), "the device has every entry")) return;
  for (size_t e = 0; e < named.size(); ++e) {
    Random random(seed * 1000 + e);
    for (int i = 0; i < cases; ++i, ++tally.cases) {
      const Step step = random_step(*named[e].entry, named, random);
      const Words words = {step.words.data(), int(step.words.size())};
      if (int(step.inputs.size()) > cuda::kMostOperands - 4 || words.count > cuda::kMostWords) continue;
      const Execution host = execute(*named[e].entry, step.words, step.inputs);
      if (host.code != Code::kOk && host.outputs.empty() && host.updated.empty()) continue;
      const Execution gpu = execute_on(device.port(), memory, *entries[e], step, host);
      const std::string name = named[e].name;
      if (!tally.that(gpu.code == host.code, name + ": ends with the host's code: " + device.sentence()) ||
          host.code != Code::kOk)
        continue;
      const ElementType first = step.inputs.empty() ? ElementType::kNone : step.inputs[0].element;
      const bool float8 = first == ElementType::kFloat8E4M3 || first == ElementType::kFloat8E5M2;
      tally.share = !device.has_products() ? kOwnShare : float8 ? kFloat8Share : kProductShare;
      bool holds = gpu.outputs.size() == host.outputs.size() && gpu.updated.size() == host.updated.size();
      for (size_t o = 0; holds && o < host.outputs.size(); ++o) holds = within(gpu.outputs[o], host.outputs[o], tally);
      for (size_t o = 0; holds && o < host.updated.size(); ++o) holds = within(gpu.updated[o], host.updated[o], tally);
      tally.that(holds, name + ": numbers are the host's");
    }
  }
  device.release(memory);
}

// ---- Models ----

Array array_of(const Program& program, const Model& model, uint32_t output) {
  const TensorRecord& r = model.tensors()[program.view().outputs[output]];
  Array array = make_array(r.element, {r.dims, r.dims + r.rank});
  std::memcpy(array.bytes.data(), program.output(output).data(), array.bytes.size());
  return array;
}

void infer(Tally& tally, cuda::Device& device, const std::string& path) {
  Block file;
  if (!tally.that(read_model(path.c_str(), &file), path + ": is read")) return;
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  Bound host, gpu;
  uint32_t index = 0;
  if (!tally.that(host.model.open(file.bytes()).ok() && host.model.find(Entry::kInfer, nullptr, &index).ok() &&
                      host.infer(file, index, nullptr, nullptr).ok() && gpu.infer(file, index, &places, &device).ok(),
                  path + ": binds to host and device: " + device.sentence()))
    return;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    for (Bound* bound : {&host, &gpu}) bound->fill_inputs(seed);
    if (!tally.that(host.program.run().ok() && gpu.program.run().ok(), path + ": runs: " + device.sentence())) break;
    for (uint32_t o = 0; o < host.program.output_count(); ++o)
      tally.that(within(array_of(gpu.program, gpu.model, o), array_of(host.program, host.model, o), tally),
                 path + ": outputs are the host's");
  }
  ++tally.models;
  gpu.program.unbind();
}

void train(Tally& tally, cuda::Device& device, const std::string& path) {
  constexpr uint32_t kSteps = 200;
  Block file;
  if (!tally.that(read_model(path.c_str(), &file), path + ": is read")) return;
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  places.keep(1);
  Bound host, gpu;
  if (!tally.that(host.train(file, nullptr, nullptr).ok() && gpu.train(file, &places, &device).ok(),
                  path + ": is bound to host and device: " + device.sentence()))
    return;
  Trainer::Report expected, found;
  for (uint32_t i = 0; i < kSteps; ++i)
    if (!tally.that(train_step(host, i, false, &expected) && train_step(gpu, i, false, &found),
                    path + ": takes a step: " + device.sentence()))
      return;
  std::printf("%s: loss after %u steps %.6g on the host, %.6g on the device\n", path.c_str(), kSteps,
              double(expected.loss), double(found.loss));
  tally.that(std::abs(found.loss - expected.loss) <= 0.01f * std::abs(expected.loss) + 1e-6f,
             path + ": the loss is within 1% of the host's");
  // Where the host refuses a step with an infinity (float8 codes hold none: their step is applied), all of the state
  // but the loss scale and its counters is what it was.
  const std::vector<std::byte> before(gpu.trainer.state().begin(), gpu.trainer.state().end());
  if (!tally.that(train_step(host, 0, true, &expected) && train_step(gpu, 0, true, &found),
                  path + ": takes a step with an infinity"))
    return;
  size_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] != gpu.trainer.state()[i];
  tally.that(found.applied == expected.applied && (found.applied || changed <= 16),
             path + ": a refused step leaves the state as it was");
  ++tally.models;
}

int told(const char* claim, const Tally& tally, bool simulated) {
  if (tally.failures != 0) {
    std::printf("CLAIM %s NOT SHOWN: %llu checks failed\n", claim, n(tally.failures));
    return 1;
  }
  std::printf(
      "CLAIM %s %s: %llu cases of every entry, %llu models, with own kernels and with %llu products by cuBLASLt; %llu "
      "numbers, %llu of them to the bit\n",
      claim, simulated ? "NOT SHOWN: no GPU; its checks hold on the simulated device" : "shown", n(tally.cases),
      n(tally.models), n(tally.products), n(tally.elements), n(tally.exact));
  return simulated ? 77 : 0;
}

// Arguments behind "simulated", where that is the first.
template <class Run>
int on_gpu(const char* claim, int count, char** arguments, const Run& run) {
  const bool simulated = count > 1 && std::strcmp(arguments[1], "simulated") == 0;
  Tally tally;
  for (const bool products : {false, true}) {
    Gpu gpu(simulated, products);
    if (!gpu.open) return std::printf("CLAIM %s NOT SHOWN: %s\n", claim, gpu.device.sentence()), 77;
    if (!products) std::printf("%s\n", gpu.device.name());
    if (!tally.that(gpu.device.has_products() == products, "cuBLASLt opens")) break;
    tally.share = products ? kFloat8Share : kOwnShare;  // of models, which have any products
    run(tally, gpu.device, count - (simulated ? 1 : 0), arguments + (simulated ? 1 : 0));
    tally.products += gpu.device.counts().products;
  }
  return told(claim, tally, simulated);
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_equal) {
  using namespace nacre;
  return test::on_gpu(
      "cuda_equal", count, arguments, [](test::Tally& tally, cuda::Device& device, int n, char** words) {
        test::kernels(tally, device, n > 1 ? std::atoi(words[1]) : 8, n > 2 ? std::strtoull(words[2], nullptr, 10) : 1);
        for (int i = 3; i < n; ++i) test::infer(tally, device, words[i]);
      });
}

NACRE_CLAIM(cuda_trains) {
  using namespace nacre;
  return test::on_gpu("cuda_trains", count, arguments,
                      [](test::Tally& tally, cuda::Device& device, int n, char** words) {
                        for (int i = 1; i < n; ++i) test::train(tally, device, words[i]);
                      });
}
