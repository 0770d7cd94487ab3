#include "tools/evaluate/calibration_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/base/split_mix64.h"
#include "tools/evaluate/sample_data.h"
#include "tools/files/input_file.h"

namespace nacre::tools {
namespace {

constexpr size_t kMostDrawn = 200, kDrawnPart = 5;
constexpr uint64_t kDrawSeed = 1;
constexpr size_t kBlockBytes = size_t{1} << 20;

std::vector<std::string> input_names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Binding& input : graph.inputs) names.push_back(input.name);
  return names;
}

// Returns how many samples each of the arrays holds at least; 1 if an array is itself a sample.
int64_t samples_in(const Graph& graph, const NpzArrays& data) {
  std::vector<std::string> ignored;
  const std::vector<NpyArray> arrays = arrays_for(input_names_of(graph), data, ignored);
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::vector<int64_t> sample = sample_dims(graph, graph.values[size_t(graph.inputs[i].value)]);
    least = std::min(least, arrays[i].dims.size() > sample.size() ? arrays[i].dims[0] : 1);
  }
  return arrays.empty() ? 1 : least;
}

// Draws `count` of `from` and keeps their order (Knuth's algorithm S), because data may be sorted or periodic.
std::vector<int64_t> drawn(std::span<const int64_t> from, size_t count) {
  SplitMix64 random(kDrawSeed);
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < from.size() && chosen.size() < count; ++i)
    if (random.below(from.size() - i) < count - chosen.size()) chosen.push_back(from[i]);
  return chosen;
}

std::vector<int64_t> without(int64_t count, std::vector<int64_t> taken) {
  std::ranges::sort(taken);
  std::vector<int64_t> rest;
  for (int64_t i = 0; i < count; ++i)
    if (!std::ranges::binary_search(taken, i)) rest.push_back(i);
  return rest;
}

NpzArrays rows_of(const NpzArrays& data, std::span<const int64_t> rows, int64_t count) {
  NpzArrays selected;
  for (const auto& [name, array] : data)
    selected.emplace_back(
        name, !array.dims.empty() && array.dims[0] == count ? select_rows(array, rows, array.place) : array);
  return selected;
}

// Returns whether both names lead to one file, or to files with equal bytes.
bool same_content(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  if (!std::filesystem::is_regular_file(a, error) || !std::filesystem::is_regular_file(b, error)) return false;
  const InputFile first(a), second(b);
  if (first.size() != second.size()) return false;
  std::vector<uint8_t> of_first(kBlockBytes), of_second(kBlockBytes);
  for (uint64_t at = 0; at < first.size(); at += kBlockBytes) {
    const size_t count = first.read(at, of_first);
    if (second.read(at, of_second) != count ||
        !std::ranges::equal(std::span(of_first).first(count), std::span(of_second).first(count)))
      return false;
  }
  return true;
}

// Shapes labels to one row per sample. Each of the `count` samples gets equally many labels, whatever their shape was.
NpyArray by_sample(const NpyArray& labels, int64_t count) {
  if (!labels.dims.empty() && labels.dims[0] == count) return labels;
  if (labels.elements() % count != 0)
    throw Error(kBadInput, labels.place,
                fmt::format("holds {}, which {} do not share evenly", counted(uint64_t(labels.elements()), "label"),
                            counted(uint64_t(count), "sample")),
                "give as many for every sample");
  NpyArray labels_by_sample = labels;
  labels_by_sample.dims = {count, labels.elements() / count};
  return labels_by_sample;
}

}  // namespace

CalibrationSet::CalibrationSet(const Graph& graph, const std::string& file, const SetOptions& from, LabelledSet& set)
    : file_(file) {
  if (file.empty()) {
    take(graph, from, set);
    return;
  }
  said_ = fmt::format("ranges are from the samples of {}", file);
  if (!from.data.empty() && same_content(file, from.data)) said_ += ", of which some or all are judged too";
}

void CalibrationSet::take(const Graph& graph, const SetOptions& from, LabelledSet& set) {
  if (!from.indices.empty()) {
    const NpzArrays all = read_arrays(from.data);
    const int64_t count = samples_in(graph, all);
    const std::vector<int64_t> others = without(count, read_rows(from.indices, count));
    if (!others.empty()) {
      const std::vector<int64_t> rows = drawn(others, kMostDrawn);
      count_ = int64_t(rows.size());
      data_ = rows_of(all, rows, count);
      said_ = fmt::format("ranges are from {} of {} that {indices} does not name: {} not judged",
                          counted(rows.size(), "sample"), from.data, rows.size() == 1 ? "it is" : "they are",
                          fmt::arg("indices", option("indices")));
      return;
    }
  }
  const int64_t count = samples_in(graph, set.data);
  if (count < 2)
    throw Error(kUsage, option("data"), "holds one sample, which cannot be both for ranges and for judging",
                "add " + option("calibrate", "FILE") + " with samples for ranges");
  std::vector<int64_t> all(size_t(count), 0);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int64_t> rows = drawn(all, std::clamp<size_t>(size_t(count) / kDrawnPart, 1, kMostDrawn));
  const std::vector<int64_t> rest = without(count, rows);
  count_ = int64_t(rows.size());
  data_ = rows_of(set.data, rows, count);
  set.data = rows_of(set.data, rest, count);
  if (set.labels) set.labels = select_rows(by_sample(*set.labels, count), rest, set.labels->place);
  said_ = fmt::format("ranges are from {} of {}, drawn at random: {} not judged, the other {} {}",
                      counted(rows.size(), "sample"), from.data, rows.size() == 1 ? "it is" : "they are",
                      grouped(rest.size()), rest.size() == 1 ? "is" : "are");
}

Samples CalibrationSet::samples(const Graph& graph, const SampleOptions& options) const {
  if (!file_.empty()) return read_samples(graph, file_, options);
  std::vector<std::string> ignored;
  return make_samples(graph, arrays_for(input_names_of(graph), data_, ignored), options);
}

Json CalibrationSet::json() const {
  Json json = {{"said", said_}};
  if (!file_.empty()) json["file"] = file_;
  else json["samples_not_judged"] = count_;
  return json;
}

}  // namespace nacre::tools
