#include "tests/claims/cuda_goals.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

namespace nacre::test {
namespace {

template <class... T>
std::string format(const char* text, T... values) {
  char buffer[320];
  std::snprintf(buffer, sizeof buffer, text, values...);
  return buffer;
}

// The port must be `bound` times as fast as another system, or move bytes at that share of the copy's rate.
struct SpeedGoal {
  const char* id;
  const char* measure;
  const char *ours, *other;
  double bound;
};

constexpr const char* kCopy = "copy";

constexpr SpeedGoal kSpeeds[] = {
    {"G1", "dense bfloat16 4096^3 beside torch.mm", "product_bf16", "torch/mm/product_bf16", 1},
    {"G3", "dense float8 4096^3 beside bfloat16", "product_f8", "product_bf16", 1.6},
    {"G4", "the same beside torch._scaled_mm", "product_f8", "torch/scaled_mm/product_f8", 1},
    {"G5", "dense int8 4096^3, requantized, beside bfloat16", "product_i8", "product_bf16", 1.5},
    {"G5", "the same beside torch._int_mm", "product_i8", "torch/int_mm/product_i8", 1},
    {"G8", "Adam, share of the copy rate", "adam_f32", kCopy, 0.85},
    {"G8", "verdict, share of the copy rate", "verdict_f32", kCopy, 0.85},
    {"G8", "layer_norm, share of the copy rate", "layer_norm_f32", kCopy, 0.8},
    {"G8", "softmax, share of the copy rate", "softmax_f32", kCopy, 0.8},
    {"G8", "cast to bfloat16, share of the copy rate", "cast_f32_bf16", kCopy, 0.85},
    {"G9", "MLP of 10 layers, batch 1, beside torch's graph", "infer_mlp10/replay", "torch/graph/infer_mlp10", 1},
    {"G9", "the same, batch 16", "infer16_mlp10/replay", "torch/graph/infer16_mlp10", 1},
    {"G9", "the same, batch 64", "infer64_mlp10/replay", "torch/graph/infer64_mlp10", 1},
    {"G10", "MLP of 10 layers, batch 1, beside torch eager", "infer_mlp10/replay", "torch/eager/infer_mlp10", 4},
    {"G10", "the same, batch 16", "infer16_mlp10/replay", "torch/eager/infer16_mlp10", 4},
    {"G10", "the same, batch 64", "infer64_mlp10/replay", "torch/eager/infer64_mlp10", 4},
    {"G12", "MLP's training step, mixed_bfloat16, beside torch.compile", "train256_mlp3_mixed_bfloat16/step",
     "torch/compiled/train256_mlp3_mixed_bfloat16", 1},
    {"G12", "the same beside torch eager", "train256_mlp3_mixed_bfloat16/step",
     "torch/eager/train256_mlp3_mixed_bfloat16", 3},
};

struct NotThere {
  const char *id, *measure, *why;
};

constexpr NotThere kNotMeasured[] = {
    {"G2", "the planned algorithm beside the best of 16", "the library's first algorithm is taken: nothing is planned"},
    {"G6", "a float8 layer's step beside bfloat16", "no model of one such layer is made here yet"},
    {"G7", "the same layer beside torch.compile", "no model of one such layer is made here yet"},
    {"G8", "cast_transpose_amax, share of the copy rate", "the port has no such kernel"},
    {"G11", "one resident kernel at batch 1 beside the graph", "the port has no such kernel"},
};

std::string time_text(double seconds) {
  return seconds >= 1e-3 ? format("%.3f ms", seconds * 1e3) : format("%.2f us", seconds * 1e6);
}

GoalRow row_of(const SpeedGoal& goal, const CudaTimings& timings, const std::string& no_peer) {
  const bool share = std::string_view(goal.other) == kCopy;
  GoalRow row = {.id = goal.id,
                 .measure = goal.measure,
                 .wanted = format(share ? ">= %.2f" : ">= %.2f x as fast", goal.bound),
                 .found = ""};
  const Timed *const ours = timings.find(goal.ours), *const other = timings.find(goal.other);
  if (ours == nullptr || quartiles(ours->seconds).median <= 0) {
    row.found = std::string(goal.ours) + " was not timed";
    return row;
  }
  const std::string own = time_text(median_seconds(*ours));
  const Ratio times = other == nullptr ? Ratio{} : ratio(*other, *ours);
  if (times.median <= 0) {
    row.found = "ours " + own + "; " + (no_peer.empty() ? std::string(goal.other) + " was not timed" : no_peer);
    return row;
  }
  const double work = share ? timings.bytes_of(goal.ours) / timings.bytes_of(goal.other) : 1;
  const Ratio speed = {times.low * work, times.median * work, times.high * work};
  row.found = text_of(speed) + ", ours " + own + (share ? "" : ", other " + time_text(median_seconds(*other)));
  row.reached = speed.median >= goal.bound ? Reached::kYes : Reached::kNo;
  return row;
}

// Returns one row for all models of one kind: the most launches, waits and allocations that any of them took.
GoalRow host_row(const CudaTimings& timings, bool training) {
  GoalRow row = {.id = "G13",
                 .measure = training ? "host work of a training step" : "host work of a run",
                 .wanted = "1 launch, 0 waits inside, 0 allocations",
                 .found = "no such model was given"};
  uint64_t launches = 0, waits = 0, allocations = 0, kernels = 0;
  int64_t bytes = 0, calls = 0;
  for (const HostWork& work : timings.host_work()) {
    if (work.training != training) continue;
    launches = std::max(launches, work.calls.graph_launch);
    waits = std::max(waits, work.calls.stream_synchronize);
    allocations = std::max(allocations, work.allocations());
    kernels = std::max(kernels, work.calls.launch);
    bytes = std::max(bytes, work.device_bytes);
    calls = std::max(calls, work.allocator_calls);
  }
  if (launches == 0) return row;
  const auto n = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  const bool counted =
      std::ranges::none_of(timings.host_work(), [](const HostWork& w) { return w.allocator_calls < 0; });
  row.found = format(
                  "%llu launches of graphs, %llu of kernels, %llu waits with the last, %llu allocations, %lld bytes "
                  "less free, ",
                  n(launches), n(kernels), n(waits), n(allocations), static_cast<long long>(bytes)) +
              (counted ? format("%lld calls of malloc and free", static_cast<long long>(calls))
                       : std::string("calls of malloc not counted"));
  const bool exact = launches == 1 && waits == 1 && kernels == 0 && allocations == 0 && bytes == 0 && calls <= 0;
  row.reached = exact ? Reached::kYes : Reached::kNo;
  return row;
}

GoalRow claim_row(const char* id, const char* measure, const char* wanted, const std::string& line) {
  GoalRow row = {.id = id, .measure = measure, .wanted = wanted, .found = line};
  if (line.empty()) row.found = "the claim did not run";
  else if (line.find(" NOT SHOWN: no GPU") == std::string::npos)
    row.reached = line.find(" shown: ") != std::string::npos ? Reached::kYes : Reached::kNo;
  return row;
}

int number_of(const std::string& id) { return std::atoi(id.c_str() + 1); }

}  // namespace

std::vector<GoalRow> goal_rows(const CudaTimings& timings, const CheckedClaims& claims, const std::string& no_peer) {
  std::vector<GoalRow> rows;
  for (const SpeedGoal& goal : kSpeeds) rows.push_back(row_of(goal, timings, no_peer));
  for (const NotThere& goal : kNotMeasured)
    rows.push_back({.id = goal.id, .measure = goal.measure, .wanted = "", .found = goal.why});
  for (const bool training : {false, true}) rows.push_back(host_row(timings, training));
  rows.push_back(claim_row("G14", "numbers beside the host's", "the bounds of claim cuda_equal", claims.equal));
  rows.push_back(claim_row("G15", "loss after 200 steps", "the bounds of claim cuda_trains", claims.trains));
  std::ranges::stable_sort(rows, {}, [](const GoalRow& row) { return number_of(row.id); });
  return rows;
}

GoalCounts count_goals(const std::vector<GoalRow>& rows) {
  std::map<std::string, std::vector<Reached>> goals;
  for (const GoalRow& row : rows) goals[row.id].push_back(row.reached);
  GoalCounts counts;
  for (const auto& [id, reached] : goals) {
    const auto has = [&reached](Reached r) { return std::ranges::find(reached, r) != reached.end(); };
    ++(has(Reached::kNo) ? counts.missed : has(Reached::kNotThere) ? counts.not_there : counts.reached);
  }
  return counts;
}

const char* name_of(Reached reached) {
  return reached == Reached::kYes ? "reached" : reached == Reached::kNo ? "missed" : "not there";
}

std::string text_of(const Ratio& ratio) { return format("%.2f [%.2f, %.2f]", ratio.median, ratio.low, ratio.high); }

}  // namespace nacre::test
