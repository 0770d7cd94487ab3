// Claim: each entry of the reference, on random cases, and the given models run on a real GPU. Integers and codes
// equal the host's to the bit. Floats are within the bounds of cuda_tally.h; those that are equal to the bit are
// counted.
//
//   cuda_equal [simulated] [cases per entry] [seed] [MODEL..]            simulated: on the tests' device
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ports/cuda/product_plan.h"
#include "tests/cases_random.h"
#include "tests/claims/claims.h"
#include "tests/claims/cuda_models.h"
#include "tests/claims/cuda_steps.h"
#include "tests/claims/cuda_tally.h"

namespace nacre::test {
namespace {

// ---- Single kernels ----

// Returns the last place of 16-bit floats for a layer of such floats, because it rounds to them even if it stores
// float32.
double least_unit(const KernelEntry& entry) {
  const bool layer = entry.op == Op::kDense || entry.op == Op::kConv2d;
  const ElementType x = entry.operands[0].element;
  return layer && (x == ElementType::kFloat16 || x == ElementType::kBfloat16) ? unit_of(x) : 0;
}

// Returns a bound on the error of the sums of a step that cuBLASLt multiplies; 0 for other steps.
double product_bound(const KernelEntry& entry, const Step& step, const Execution& host) {
  std::vector<Array> arrays = step.inputs;
  arrays.insert(arrays.end(), host.outputs.begin(), host.outputs.end());
  std::vector<TensorRecord> records;
  for (const Array& array : arrays) records.push_back(array.present() ? record_of(array) : TensorRecord{});
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) tensors.push_back({nullptr, arrays[i].present() ? &records[i] : nullptr});
  cuda::Plan plan;
  const Words words = {step.words.data(), int(step.words.size())};
  if (!cuda::plan_of(entry, words, {tensors.data(), int(tensors.size()), 0}, &plan)) return 0;
  const double factors = largest_of(arrays[size_t(plan.left.operand)]) * largest_of(arrays[size_t(plan.right.operand)]);
  return (plan.terms / 8 + 2) * 0x1p-22 * plan.terms * factors;
}

// Executes a step as execute() does, with every operand in the device's memory.
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
      tally.besides = device.has_products() ? product_bound(*named[e].entry, step, host) : 0;
      tally.least_unit = device.has_products() ? least_unit(*named[e].entry) : 0;
      bool holds = gpu.outputs.size() == host.outputs.size() && gpu.updated.size() == host.updated.size();
      for (size_t o = 0; holds && o < host.outputs.size(); ++o) holds = within(gpu.outputs[o], host.outputs[o], tally);
      for (size_t o = 0; holds && o < host.updated.size(); ++o) holds = within(gpu.updated[o], host.updated[o], tally);
      tally.within_bounds(holds, name + ": numbers are the host's");
    }
  }
  tally.besides = tally.least_unit = 0;
  device.release(memory);
}

// Tries products of 16-bit floats whose sizes fit Tensor Cores, because random cases seldom do.
void aligned_products(Tally& tally, cuda::Device& device, uint64_t seed) {
  const std::vector<reference::NamedEntry> named = all_entries();
  const std::span<std::byte> memory = device.allocate(size_t{16} << 20);
  Random random(seed);
  for (size_t e = 0; e < named.size(); ++e) {
    const std::string name = named[e].name;
    const ElementType type = named[e].entry->operands[0].element;
    if (name != "kDenseBf16" && name != "kDenseF16" && name != "kDenseBf16ToF32" && name != "kDenseF16ToF32") continue;
    for (const int rows : {8, 64, 200})
      for (const int terms : {64, 512})
        for (const int columns : {8, 64, 256}) {
          const auto reals = [&](std::vector<int32_t> dims) {
            Array made = make_array(type, std::move(dims));
            for (int64_t i = 0; i < made.elements(); ++i) made.set(i, between(random, -1, 1));
            return made;
          };
          Step step;
          step.words.assign(size_t(7), 0);
          step.inputs = {reals({rows, terms}), reals({columns, terms}), reals({columns})};
          const Execution host = execute(*named[e].entry, step.words, step.inputs);
          const Execution gpu = execute_on(device.port(), memory, *device.port().set->entries[e], step, host);
          if (!tally.that(host.code == Code::kOk && gpu.code == Code::kOk, name + ": runs: " + device.sentence()))
            continue;
          tally.share = device.has_products() ? kProductShare : kOwnShare;
          tally.besides = device.has_products() ? product_bound(*named[e].entry, step, host) : 0;
          tally.least_unit = device.has_products() ? least_unit(*named[e].entry) : 0;
          tally.within_bounds(within(gpu.outputs[0], host.outputs[0], tally),
                              name + ": numbers of " + std::to_string(terms) + " terms are the host's");
          ++tally.cases;
        }
  }
  tally.besides = tally.least_unit = 0;
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
      tally.within_bounds(within(array_of(gpu.program, gpu.model, o), array_of(host.program, host.model, o), tally),
                          path + ": outputs are the host's");
  }
  ++tally.models;
  gpu.program.unbind();
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_equal) {
  using namespace nacre;
  return test::on_gpu("cuda_equal", count, arguments,
                      [](test::Tally& tally, cuda::Device& device, int n, char** words) {
                        const uint64_t seed = n > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
                        test::kernels(tally, device, n > 1 ? std::atoi(words[1]) : 8, seed);
                        test::aligned_products(tally, device, seed);
                        for (int i = 3; i < n; ++i) test::infer(tally, device, words[i]);
                      });
}
