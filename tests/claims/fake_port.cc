// Claim: if every second step of a network runs on a port with memory of its own, it gives the host's numbers to the
// byte.
//
//   equal      KWS, IC, the digits sample and its training (two policies), with the even steps and then the odd steps
//              on the port, and two different poisons in bytes that were not copied. Outputs are compared, and in
//              training report and state after every step
//   isolated   the port's memory is protected while the host runs, and its kernels refuse memory outside of it
//   faults     calls of a run (begin, copy in, step, copy out, finish) fail one at a time, and memory is a byte short:
//              each gives one status, the state does not change unless `derive` failed, and the next run is right
#include "tests/fake/fake_port.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/model/network_runs.h"
#include "tests/model/networks.h"

namespace nacre::test {
namespace {

using fake::FakePort;
using fake::Fault;

constexpr Fault kFaults[] = {Fault::kBegin, Fault::kCopyIn, Fault::kStep, Fault::kCopyOut, Fault::kFinish};

struct Tally {
  uint64_t runs = 0, steps = 0, faults = 0, failures = 0;

  bool that(bool holds, const std::string& what) {
    if (!holds) ++failures, std::printf("FAIL %s\n", what.c_str());
    return holds;
  }
};

// Puts every second step of each program at place 1, from step `first` on.
Buffer with_places(const Buffer& file, uint32_t first) {
  Buffer placed = file;
  Model model;
  if (!model.open(placed.bytes()).ok()) return placed;
  const auto at = size_t(reinterpret_cast<const std::byte*>(model.steps().data()) - placed.data());
  auto* const steps = reinterpret_cast<StepRecord*>(placed.data() + at);
  const size_t count = model.steps().size();
  for (size_t i = 0; i < count; ++i) steps[i].place = i % 2 == first ? 1 : 0;
  repair(placed.bytes());
  return placed;
}

// Makes the n-th call of each kind fail, for n from 0 to 12, then 24, 48 and so on, until a run has no n-th call.
template <class Run>
void inject(Tally& tally, const std::string& name, FakePort& port, const Run& run) {
  for (const Fault fault : kFaults)
    for (uint64_t nth = 0;; nth += nth < 12 ? 1 : nth) {
      port.fail(fault, nth);
      const Status status = run();
      const bool failed = port.failed();
      port.fail(Fault::kNone, 0);
      if (!failed) break;
      ++tally.faults;
      tally.that(
          status.code == (fault == Fault::kStep ? fake::kInjected : Code::kPortFailed) && status.table == Table::kStep,
          name + ": a fault is one status that names the step");
    }
}

// ---- Inference ----

void infer(Tally& tally, const std::string& name, const Buffer& file) {
  constexpr uint32_t kSeeds = 3;
  InferenceRun host;
  Bytes expected[kSeeds];
  bool ready = host.bind(file.bytes(), reference_kernels()).ok();
  for (uint32_t seed = 0; ready && seed < kSeeds; ++seed) ready = host.run(seed, &expected[seed]).ok();
  if (!tally.that(ready, name + ": runs on the host")) return;
  for (uint32_t first = 0; first < 2; ++first)
    for (const std::byte poison : {std::byte{0xA5}, std::byte{0x5A}}) {
      const Buffer placed = with_places(file, first);
      FakePort port(reference_kernels(), {.poison = poison});
      const Port* const ports[] = {nullptr, &port.port()};
      Places places(ports);
      InferenceRun on_port;
      Program& program = on_port.program;
      if (!tally.that(on_port.model.open(placed.bytes()).ok() &&
                          places.measure(on_port.model, 0, reference_kernels(), &on_port.sizes).ok(),
                      name + ": measures with places"))
        return;
      on_port.blocks.emplace(on_port.sizes, poison);
      for (const uint32_t block : {kState, kStream})
        std::ranges::fill(on_port.blocks->memory.block[block], std::byte{0});
      const auto needed = size_t(places.bytes(1));
      const auto bind = [&](size_t given) {
        NACRE_TRY(places.give(1, port.allocate(given)));
        return places.bind(&program, on_port.model, 0, reference_kernels(), on_port.blocks->memory);
      };
      const Status small = bind(needed - 1);
      ++tally.faults;
      tally.that(small.code == Code::kMemorySize && small.table == Table::kPort && small.needed == needed &&
                     small.given == needed - 1,
                 name + ": memory that is too small is refused with both numbers");
      if (!tally.that(bind(needed).ok(), name + ": binds with places")) return;
      Bytes found;
      for (uint32_t seed = 0; seed < kSeeds; ++seed, ++tally.runs)
        tally.that(on_port.run(seed, &found).ok() && found == expected[seed], name + ": outputs are the host's");
      const fake::Counts before = port.counts();
      if (poison == std::byte{0xA5}) {
        inject(tally, name, port, [&] { return on_port.run(1, &found); });
        tally.that(on_port.run(2, &found).ok() && found == expected[2],
                   name + ": the run behind a fault is the host's");
      }
      tally.steps += before.steps;
      tally.that(before.steps == kSeeds * uint64_t((program.view().step_count + 1 - first) / 2),
                 name + ": every second step is the port's");
      tally.that(port.counts().broken == 0 && port.counts().begins == port.counts().finishes,
                 name + ": what begins is finished, and nothing lies elsewhere");
      program.unbind();
    }
}

// ---- Training ----

constexpr int kSteps = 4;
constexpr float kRate = TrainingSteps::kRate;

bool prepare(TrainingSteps& t, const Buffer& file, FakePort* port, Places* places, std::byte before) {
  if (!t.measure(file.bytes(), reference_kernels(), places, before).ok()) return false;
  if (places != nullptr && !places->give(1, port->allocate(size_t(places->bytes(1)))).ok()) return false;
  return t.start(reference_kernels(), places).ok();
}

// After a fault in a step the accumulated sums are gone and the state is unchanged. If the program `derive` fails
// after a complete update, the state is the updated one.
void break_steps(Tally& tally, const std::string& name, TrainingSteps& t, FakePort& port) {
  const Bytes before = t.state();
  const auto again = [&] {
    std::ranges::copy(before, t.trainer.state().begin());
    tally.that(t.trainer.restored().ok(), name + ": goes on behind a fault");
  };
  Bytes after;
  if (tally.that(t.accumulate(0).ok() && t.trainer.commit(kRate, nullptr).ok(), name + ": commits")) after = t.state();
  again();
  inject(tally, name, port, [&] {
    const Status status = t.accumulate(0);
    tally.that(t.state() == before, name + ": a fault in accumulate leaves the state as it was");
    t.trainer.discard();
    return status;
  });
  uint32_t derive = 0;
  const bool derives = t.model.find(Entry::kDerive, nullptr, &derive).ok();
  inject(tally, name, port, [&] {
    // The fault waits while samples are accumulated, so that only calls of the commit count.
    const Fault fault = port.pending();
    const uint64_t nth = port.pending_nth();
    port.fail(Fault::kNone, 0);
    Status status = t.accumulate(0);
    port.fail(fault, nth);
    if (status.ok()) status = t.trainer.commit(kRate, nullptr);
    const Bytes found = t.state();
    const bool whole =
        status.ok()
            ? found == after
            : found == before || (derives && status.index >= t.model.program(derive).first_step && found == after);
    tally.that(whole, name + ": a fault in commit leaves the state as it was");
    const bool failed = port.failed();
    port.fail(Fault::kNone, 0);
    again();
    if (!failed) port.fail(fault, nth);  // no fault happened: there are fewer calls than n
    return status;
  });
}

void train(Tally& tally, const std::string& name, const Buffer& file) {
  TrainingSteps host;
  std::vector<Bytes> expected;
  bool ready = prepare(host, file, nullptr, nullptr, std::byte{0xA5});
  for (int i = 0; ready && i < kSteps; ++i) {
    Trainer::Report report;
    ready = host.step(i, &report).ok();
    expected.push_back(told(host, report));
  }
  if (!tally.that(ready, name + ": trains on the host")) return;
  tally.that(expected.front() != expected.back(), name + ": learns");
  for (uint32_t first = 0; first < 2; ++first)
    for (const std::byte poison : {std::byte{0xA5}, std::byte{0x5A}}) {
      const Buffer placed = with_places(file, first);
      FakePort port(reference_kernels(), {.poison = poison});
      const Port* const ports[] = {nullptr, &port.port()};
      Places places(ports);
      TrainingSteps t;
      if (!tally.that(prepare(t, placed, &port, &places, poison), name + ": is bound to places")) return;
      for (int i = 0; i < kSteps; ++i, ++tally.runs) {
        if (i == 1 && poison == std::byte{0xA5}) {
          const uint64_t begins = port.counts().begins;
          break_steps(tally, name, t, port);
          tally.that(port.counts().begins > begins, name + ": steps of a commit run on the port");
          if (!tally.that(t.trainer.restored().ok(), name + ": goes on behind faults")) return;
        }
        Trainer::Report report;
        tally.that(t.step(i, &report).ok() && told(t, report) == expected[size_t(i)],
                   name + ": state and report are the host's");
      }
      tally.steps += port.counts().steps;
      tally.that(port.counts().steps > 0 && port.counts().broken == 0, name + ": nothing lies elsewhere");
    }
}

int claim() {
  Tally tally;
  int missing = 0, networks = 0;
  const auto converted = [&](const Network& network, const char* options, Buffer* file) {
    std::string why;
    if (convert(network, file, &why, options)) return ++networks, true;
    std::printf("%s: %s\n", network.name, why.c_str());
    return ++missing, false;
  };
  for (const Network& network : kNetworks) {
    const std::string name = network.name;
    Buffer file;
    if ((name == "KWS" || name == "IC" || network.sample) && converted(network, "", &file)) infer(tally, name, file);
    if (!network.sample) continue;
    for (const char* policy : {"float32", "mixed_float16"}) {
      const std::string options =
          std::string("--train softmax_cross_entropy --optimizer adam --batch 8 --policy ") + policy;
      if (converted(network, options.c_str(), &file)) train(tally, name + " trained in " + policy, file);
    }
  }
  if (tally.failures != 0 || networks == 0) {
    std::printf("CLAIM fake_port NOT SHOWN: %llu checks failed, %d networks\n",
                static_cast<unsigned long long>(tally.failures), networks);
    return 1;
  }
  std::printf(
      "CLAIM fake_port %s: %d networks (%d missing), every second step on a port with memory of its own: %llu runs and "
      "training "
      "steps equal to the host's to the byte, %llu steps on the port; %llu faults end in one status each and leave "
      "state as it was\n",
      missing == 0 ? "shown" : "partly shown", networks, missing, static_cast<unsigned long long>(tally.runs),
      static_cast<unsigned long long>(tally.steps), static_cast<unsigned long long>(tally.faults));
  return missing == 0 ? 0 : 77;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(fake_port) { return nacre::test::claim(); }
