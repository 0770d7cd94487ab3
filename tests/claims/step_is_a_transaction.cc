// Claim: a training step is a transaction: all that it learned is committed, or nothing changes but the loss scale
// and its counters.
//
//   scales      the sequences of finite, infinite and NaN gradients of the golden tables `loss_scale` and
//               `recommended_loss_scale`, made with such targets. The scale used, and the scale and the counter after
//               each step, are the table's. The step is applied if the table applies it and the gradients are finite;
//               Trainer refuses all others, whatever the rule says. Then the same with finite gradients and an
//               infinite loss in place of infinite gradients. Rows with an infinite scale, which no step can use, are
//               left out
//   refused     convolutions with batch norm, dropout, float8 layers after a float32 one, Adam and a dynamic loss
//               scale: 60 steps, every third with an infinity or a NaN in its input. The state is the same to the
//               byte before and after every accumulate, and after a refused commit, but for the loss scale and its
//               counters
//   halves      two micro-batches of n rows give the gradients, loss and count of one of 2 n, in networks without batch
//               norm. They are equal to the bit, because each sum takes its terms in the order of the rows either
//               way. Only bias_gradient adds its terms in blocks of 128 rows, which a half begins anew. There the
//               sums of K <= 128 terms t in a block differ by at most 2 128 2^-24 sum |t|. In place of sum |t| the
//               claim uses what is not larger, the sum of the magnitudes of each sample's part
//   float8      scales, amax histories and event counts after each of 50 steps equal those of
//               engine/numeric/amax_history.h, which gets the amaxes of the step block, in Keras's and in
//               TransformerEngine's order
//
// To show that a test of bytes can fail, an applied commit must change them, and one wrong amax must be seen.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/claims/step_is_a_transaction.h"
#include "tests/differentiate/networks.h"
#include "tests/differentiate/training_run.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/compile/training.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;
using namespace step_is_a_transaction;

// ---- refused

Graph with_dropout(Graph graph) {
  const auto fc = std::ranges::find(graph.nodes, "fc", &Node::name);
  Node dropout;
  dropout.op = Op::kDropout;
  dropout.name = "dropout";
  dropout.layer = graph.add_layer({.name = "dropout", .source_op = "Dropout", .policy = {}});
  Value y = graph.values[size_t(fc->inputs[0])];
  y.name = "dropout";
  dropout.inputs = {fc->inputs[0], kNone};
  dropout.outputs = {graph.add(std::move(y))};
  set_real(dropout, "rate", 0.25f);
  fc->inputs[0] = dropout.outputs[0];
  graph.nodes.insert(fc, dropout);
  check(graph);
  return graph;
}

using State = std::vector<std::byte>;

// Returns the state with the loss scale and its counters cleared.
State rest_of(const TrainingRun& run) {
  State state(run.state().begin(), run.state().end());
  const Model& model = run.model().model();
  for (uint32_t id = 0; id < model.tensors().size(); ++id) {
    const TensorRecord& r = model.tensors()[id];
    const std::string name = run.model().tensor_name(id);
    if (r.region == Region::kState && (name == "loss_scale" || name == "loss_scale_counters"))
      std::fill_n(state.begin() + ptrdiff_t(r.offset), r.bytes, std::byte{0});
  }
  return state;
}

struct Refused {
  Count accumulates, refusals, applied;
  size_t bytes = 0, loss_scale = 0;
  std::string holds, lacks;  // kinds of state that it has, and that it lacks

  bool shown() const { return lacks.empty() && accumulates.shown() && refusals.shown() && applied.shown(); }
};

Refused refuse_steps(const PeerNetwork& network) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kAdam;
  options.loss_scale = loss_scaler(LossScaleSystem::kNacre);
  options.loss_scale.period = 5;
  TrainingRun run(compiled(with_dropout(network.graph), options, "float32",
                           {"conv2=float8/4_from_float32", "fc=float8/4_from_float32"})
                      .bytes);
  Refused result;
  result.bytes = run.state().size();
  const std::vector<std::string> names = run.tensors(Region::kState);
  for (const char* wanted : {"bn1.mean", "bn1.variance", "conv1.w/first_moment", "conv1.w/second_moment",
                             "amax_history", "seed", "step_count"}) {
    const auto found =
        std::ranges::find_if(names, [&](const std::string& name) { return name.find(wanted) != name.npos; });
    std::string& list = found == names.end() ? result.lacks : result.holds;
    list += (list.empty() ? "" : ", ") + (found == names.end() ? std::string(wanted) : *found);
  }
  for (int step = 0; step < 60; ++step) {
    PeerBatch batch = peer_batch(network, step);
    const bool bad = step % 3 == 2;
    if (bad) batch.x[size_t(step)] = step % 2 == 0 ? kInfinity : kNan;
    for (int micro = 0; micro < 2; ++micro) {
      const State before(run.state().begin(), run.state().end());
      run.write(0, batch.x);
      run.write(1, batch.labels);
      run.accumulate();
      result.accumulates.note(std::ranges::equal(before, run.state()));
    }
    const State before = rest_of(run);
    const float scale = float(run.numbers("loss_scale").at(0));
    const Trainer::Report report = run.commit(0x1p-8f);
    const bool same = before == rest_of(run);
    const bool at_floor = scale == options.loss_scale.min;
    const float after = at_floor ? scale : scale / 2;
    if (bad)
      result.refusals.note(!report.applied && same && report.overflow_at_floor == at_floor &&
                           float(run.numbers("loss_scale").at(0)) == after);
    else result.applied.note(report.applied && !same);
  }
  return result;
}

// ---- halves

struct Halves {
  int networks = 0;
  int64_t numbers = 0, equal = 0, within = 0;  // within: not equal, but inside the bound
  double worst = 0;                            // largest difference; 1: the bound
  std::string fixed;                           // networks that take whole batches only

  bool shown() const { return networks >= 3 && numbers > 0 && equal + within == numbers; }
};

using Sums = std::vector<std::vector<double>>;

Sums sums(const TrainingRun& run) {
  Sums all;
  for (const std::string& name : run.tensors(Region::kStep))
    if (name.ends_with("/gradient") || name == "loss_sum" || name == "sample_count") all.push_back(run.numbers(name));
  return all;
}

// Returns the batch with sample `first` in front.
template <class T>
std::vector<T> turned(std::vector<T> items, int first, int batch) {
  std::rotate(items.begin(), items.begin() + ptrdiff_t(items.size()) / batch * first, items.end());
  return items;
}

// Returns the sums of `rows` samples from each of `firsts` on, accumulated in turn.
std::optional<Sums> accumulated(TrainingRun& run, const PeerNetwork& network, const std::vector<int>& firsts,
                                int rows) {
  const PeerBatch batch = peer_batch(network, 0);
  run.trainer().discard();
  for (const int first : firsts) {
    run.write(0, turned(batch.x, first, network.batch));
    if (network.squared_error) run.write(1, turned(batch.targets, first, network.batch));
    else run.write(1, turned(batch.labels, first, network.batch));
    const Status status = run.trainer().accumulate(uint32_t(rows));
    if (status.code == Code::kRowsUnsupported) return std::nullopt;
    run.require(status);
  }
  return sums(run);
}

void compare_halves(const PeerNetwork& network, Halves& halves) {
  TrainingOptions options;
  options.loss.kind = network.squared_error ? Loss::kSquaredError : Loss::kSoftmaxCrossEntropy;
  TrainingRun run(compiled(network.graph, options, "float32").bytes);
  const int half = network.batch / 2;
  const std::optional<Sums> whole = accumulated(run, network, {0}, 0),
                            parts = accumulated(run, network, {0, half}, half);
  if (!whole || !parts) {
    halves.fixed += (halves.fixed.empty() ? "" : ", ") + network.name;
    return;
  }
  Sums magnitudes = *whole;
  for (std::vector<double>& m : magnitudes) std::ranges::fill(m, 0);
  for (int sample = 0; sample < network.batch; ++sample) {
    const Sums one = *accumulated(run, network, {sample}, 1);
    for (size_t i = 0; i < one.size(); ++i)
      for (size_t j = 0; j < one[i].size(); ++j) magnitudes[i][j] += std::abs(one[i][j]);
  }
  for (size_t i = 0; i < whole->size(); ++i)
    for (size_t j = 0; j < (*whole)[i].size(); ++j) {
      const double difference = std::abs((*whole)[i][j] - (*parts)[i][j]), bound = 2 * 128 * 0x1p-24 * magnitudes[i][j];
      ++halves.numbers;
      halves.equal += difference == 0 ? 1 : 0;
      halves.within += difference > 0 && difference <= bound ? 1 : 0;
      if (difference > 0) halves.worst = std::max(halves.worst, difference / bound);
    }
  ++halves.networks;
}

constexpr const char* kFloat8[] = {
    "float8/4_from_float32", "float8/16_from_float32;update_order=transformer_engine",
    "float8/4_from_float32;update_order=transformer_engine;amax_rule=most_recent;margin=1"};

int claim(const std::filesystem::path& shared) {
  const std::filesystem::path models = shared / "models/mlperf_tiny", file = shared / "golden/policies.json";
  const PeerNetwork mlp = peer_network("mlp", models);
  const Scales scales = compare_scales(mlp, Json::parse(read_file(file.string())));
  std::printf("scales   %d sequences, %s steps as the table says, %d of them refused against the rule, %d left out\n",
              scales.sequences, text(scales.steps).c_str(), scales.refused_against_rule, scales.left_out);

  const Refused refused = refuse_steps(peer_network("cnn", models));
  if (!refused.lacks.empty()) std::printf("refused  the state lacks %s\n", refused.lacks.c_str());
  std::printf(
      "refused  state of %zu bytes (%s): same after %s accumulates and %s refused commits, other after %s applied "
      "ones\n",
      refused.bytes, refused.holds.c_str(), text(refused.accumulates).c_str(), text(refused.refusals).c_str(),
      text(refused.applied).c_str());

  Halves halves;
  for (const char* name : {"mlp", "resnet8", "transformer", "lstm"}) compare_halves(peer_network(name, models), halves);
  std::printf(
      "halves   %d networks, %lld of %lld sums equal to the bit, %lld within the bound, at most %.2g of it%s%s\n",
      halves.networks, static_cast<long long>(halves.equal), static_cast<long long>(halves.numbers),
      static_cast<long long>(halves.within), halves.worst,
      halves.fixed.empty() ? "" : "; whole batches only: ", halves.fixed.c_str());

  Count float8;
  int moved = 0;
  for (const char* policy : kFloat8) {
    const Float8 found = follow_scales(mlp, policy);
    std::printf("float8   %s: %s states, %d scales moved\n", policy, text(found.states).c_str(), found.moved);
    float8.right += found.states.right, float8.all += found.states.all, moved += found.moved;
  }
  const bool seen = !follow_scales(mlp, kFloat8[0], 10).states.shown();

  if (!scales.steps.shown() || !refused.shown() || !halves.shown() || !float8.shown() || moved == 0 || !seen) {
    std::printf("CLAIM step_is_a_transaction NOT SHOWN: a count above is short, or a wrong amax was not seen\n");
    return kFailed;
  }
  std::printf(
      "CLAIM step_is_a_transaction shown: %s steps of %d loss-scale sequences; %s accumulates and %s refused commits "
      "leave %zu bytes of "
      "state as they were; %lld of %lld sums of halves equal to the bit, the rest within rounding; %s float8 states as "
      "the formulas say in both orders\n",
      text(scales.steps).c_str(), scales.sequences, text(refused.accumulates).c_str(), text(refused.refusals).c_str(),
      refused.bytes, static_cast<long long>(halves.equal), static_cast<long long>(halves.numbers),
      text(float8).c_str());
  return kSuccess;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(step_is_a_transaction) {
  const std::filesystem::path shared = nacre::tools::shared_path("");
  if (!std::filesystem::exists(shared / "golden/policies.json")) {
    std::printf("step_is_a_transaction: no golden/policies.json; NACRE_SHARED names the folder that holds it\n");
    return 77;
  }
  try {
    return nacre::test::claim(shared);
  } catch (const std::exception& error) {
    std::printf("CLAIM step_is_a_transaction NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
