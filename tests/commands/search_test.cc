// Tests nacre search: the algorithm on landscapes whose optimum is known, and the command on the digits network.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/evaluate/policy_search.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

// A landscape in which effects of single layers add exactly: effects[layer][policy].
struct Landscape {
  struct Effect {
    double saved = 0, damage = 0, drop = 0, saved_us = 0;
    bool possible = true;
  };
  std::vector<std::vector<Effect>> effects;
  double drop_of_pairs = 0;  // added for each pair of changed layers; prediction cannot see it
  int calls = 0;

  static constexpr double kBytes = 1e6, kMicroseconds = 1e4;

  size_t layers() const { return effects.size(); }
  size_t policies() const { return effects[0].size(); }

  std::optional<Trial> operator()(const PolicyChoice& choice) {
    ++calls;
    Trial trial = {.bytes = kBytes, .metric = 1, .damage = 0, .microseconds = kMicroseconds};
    int changed = 0;
    for (size_t layer = 0; layer < choice.size(); ++layer) {
      const Effect& e = effects[layer][size_t(choice[layer])];
      if (!e.possible) return std::nullopt;
      trial.bytes -= e.saved;
      trial.damage += e.damage;
      trial.metric -= e.drop;
      trial.microseconds -= e.saved_us;
      changed += choice[layer] != 0 ? 1 : 0;
    }
    trial.metric -= drop_of_pairs * (changed * (changed - 1) / 2);
    return trial;
  }

  SearchResult search(const SearchLimits& limits, int budget = 10'000) {
    const SearchProblem problem = {.layers = layers(), .policies = policies(), .limits = limits, .budget = budget};
    return search_policies(problem, std::ref(*this));
  }

  // Returns the fewest bytes of all maps within the limits, by trying every map.
  double fewest_bytes(const SearchLimits& limits) {
    PolicyChoice choice(layers(), 0);
    double fewest = std::numeric_limits<double>::infinity();
    for (bool more = true; more;) {
      const std::optional<Trial> t = (*this)(choice);
      if (t && 1 - t->metric <= limits.max_drop &&
          (!limits.max_microseconds || t->microseconds <= *limits.max_microseconds))
        fewest = std::min(fewest, t->bytes);
      more = next(choice);
    }
    return fewest;
  }

  // Moves to the next map. Returns false after the last.
  bool next(PolicyChoice& choice) const {
    for (int& policy : choice) {
      if (++policy < int(policies())) return true;
      policy = 0;
    }
    return false;
  }
};

// The drop is a fixed multiple of the damage, so both have one order. All numbers are small integers over powers of
// two, so sums are exact.
Landscape random_landscape(uint32_t seed, size_t layers, size_t policies) {
  std::mt19937 random(seed);
  Landscape landscape;
  for (size_t layer = 0; layer < layers; ++layer) {
    std::vector<Landscape::Effect> effects = {{}};
    for (size_t policy = 1; policy < policies; ++policy) {
      const double damage = double(random() % 64) / 4096;
      effects.push_back({.saved = double(random() % 4000 + 1),
                         .damage = damage,
                         .drop = damage / 4,
                         .saved_us = double(random() % 50)});
    }
    landscape.effects.push_back(effects);
  }
  return landscape;
}

TEST(policy_search, finds_the_smallest_map_where_effects_do_not_compete) {
  // There is one candidate policy, with the same effect in each of six layers. k changes are allowed; any k layers
  // will do.
  Landscape landscape;
  landscape.effects.assign(6, {{}, {.saved = 1000, .damage = 0.25, .drop = 0.0625}});
  const SearchResult result = landscape.search({.max_drop = 0.25});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.rows[*result.best].measured.bytes, Landscape::kBytes - 4000);
}

struct Point {
  double drop, bytes;
};

// Returns the corners of the lower convex hull of all maps, which the greedy search must find.
std::vector<Point> corners(Landscape landscape) {
  std::map<double, double> fewest;  // by drop
  PolicyChoice choice(landscape.layers(), 0);
  for (bool more = true; more;) {
    const Trial t = *landscape(choice);
    const auto [found, first] = fewest.try_emplace(1 - t.metric, t.bytes);
    if (!first) found->second = std::min(found->second, t.bytes);
    more = landscape.next(choice);
  }
  std::vector<Point> hull;
  for (const auto& [drop, bytes] : fewest) {
    if (!hull.empty() && bytes >= hull.back().bytes) continue;
    const auto above = [&](const Point& from,
                           const Point& over) {  // whether `over` is not below the line
      return (over.bytes - from.bytes) * (drop - from.drop) >= (bytes - from.bytes) * (over.drop - from.drop);
    };
    while (hull.size() >= 2 && above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back({drop, bytes});
  }
  return hull;
}

TEST(policy_search, finds_every_corner_of_the_front_of_all_maps) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Landscape landscape = random_landscape(seed, 5, 4);
    const std::vector<Point> front = corners(landscape);
    EXPECT_GE(front.size(), 4u) << seed;
    for (const Point& corner : front) {
      const SearchResult result = landscape.search({.max_drop = corner.drop});
      ASSERT_TRUE(result.best) << seed;
      EXPECT_EQ(result.rows[*result.best].measured.bytes, corner.bytes) << seed << " at drop " << corner.drop;
    }
  }
}

// Between two maps of the path, the optimum saves less than one change more than the greedy search. Sinha and
// Zoltners (1979): the gap is at most the saving of the first change that does not fit.
TEST(policy_search, is_no_further_from_the_optimum_than_one_change) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Landscape landscape = random_landscape(seed + 100, 6, 3);
    for (const double max_drop : {1.0 / 1024, 1.0 / 256, 1.0 / 128}) {
      const SearchResult result = landscape.search({.max_drop = max_drop});
      ASSERT_TRUE(result.best) << seed;
      double largest = 0;
      for (const auto& layer : landscape.effects)
        for (const Landscape::Effect& effect : layer) largest = std::max(largest, effect.saved);
      EXPECT_LE(result.rows[*result.best].measured.bytes, landscape.fewest_bytes({.max_drop = max_drop}) + largest)
          << seed;
      EXPECT_LE(result.rows[*result.best].measured_drop, max_drop) << seed;
    }
  }
}

TEST(policy_search, predictions_add_the_effects_of_single_layers) {
  Landscape landscape = random_landscape(7, 6, 4);
  const SearchResult result = landscape.search({.max_drop = 1e9});
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    PolicyChoice choice(6);
    for (int& policy : choice) policy = int(random() % 4);
    const std::optional<Trial> predicted = predict(result, choice), measured = landscape(choice);
    ASSERT_TRUE(predicted && measured);
    EXPECT_EQ(predicted->bytes, measured->bytes);
    EXPECT_EQ(predicted->damage, measured->damage);
    EXPECT_EQ(predicted->microseconds, measured->microseconds);
    EXPECT_EQ(predicted->metric, measured->metric);  // sums of multiples of 2^-14
  }
}

TEST(policy_search, limits_hold_as_measured_where_predictions_are_too_good) {
  Landscape landscape = random_landscape(9, 6, 3);
  landscape.drop_of_pairs = 1.0 / 1024;
  const double max_drop = 1.0 / 128;
  const SearchResult result = landscape.search({.max_drop = max_drop});
  ASSERT_TRUE(result.best);
  const SearchRow& best = result.rows[*result.best];
  EXPECT_LE(best.measured_drop, max_drop);
  EXPECT_LT(best.predicted_drop, best.measured_drop);
  for (const SearchRow& row : result.rows) EXPECT_EQ(row.meets, row.measured_drop <= max_drop);
}

TEST(policy_search, limits_on_bytes_and_time_hold_or_nothing_is_proposed) {
  Landscape landscape = random_landscape(3, 6, 4);
  const double fewest = landscape.fewest_bytes({.max_drop = 1e9});
  EXPECT_FALSE(landscape.search({.max_drop = 1e9, .max_bytes = fewest - 1}).best);
  EXPECT_TRUE(landscape.search({.max_drop = 1e9, .max_bytes = fewest}).best);
  const SearchResult quick = landscape.search({.max_drop = 1e9, .max_microseconds = Landscape::kMicroseconds - 150});
  ASSERT_TRUE(quick.best);
  EXPECT_LE(quick.rows[*quick.best].measured.microseconds, Landscape::kMicroseconds - 150);
  EXPECT_FALSE(landscape.search({.max_drop = 1e9, .max_microseconds = 1}).best);
}

TEST(policy_search, what_a_layer_cannot_have_is_never_proposed) {
  Landscape landscape = random_landscape(4, 5, 3);
  for (auto& layer : landscape.effects) layer[2].possible = false;
  const SearchResult result = landscape.search({.max_drop = 1e9});
  ASSERT_TRUE(result.best);
  for (const SearchRow& row : result.rows) EXPECT_EQ(std::ranges::count(row.choice, 2), 0);
}

TEST(policy_search, no_more_is_measured_than_the_budget_allows) {
  for (const int budget : {1, 2, 10, 25, 40}) {
    Landscape landscape = random_landscape(5, 10, 5);
    const SearchResult result = landscape.search({.max_drop = 1.0 / 64}, budget);
    EXPECT_LE(landscape.calls, budget);
    EXPECT_EQ(result.measurements, landscape.calls);
    EXPECT_TRUE(result.best) << budget;  // the reference itself, at least
  }
}

TEST(policy_search, a_reference_that_cannot_be_measured_is_an_error) {
  Landscape landscape = random_landscape(5, 2, 2);
  landscape.effects[1][0].possible = false;
  EXPECT_THROW(landscape.search({.max_drop = 1}), Error);
}

TEST(pareto_front, holds_what_nothing_beats_and_only_that) {
  std::mt19937 random(11);
  std::vector<SearchRow> rows(60);
  for (SearchRow& row : rows) {
    row.measured.bytes = double(random() % 20);
    row.measured_drop = double(random() % 6);
    row.measured.damage = double(random() % 6);
  }
  const std::vector<size_t> front = pareto_front(rows);
  const auto key = [&](size_t i) {
    return std::array{rows[i].measured.bytes, rows[i].measured_drop, rows[i].measured.damage};
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    bool beaten = false;
    for (size_t j = 0; j < rows.size(); ++j) {
      const auto a = key(j), b = key(i);
      beaten = beaten || (a != b && a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]);
    }
    EXPECT_EQ(beaten, std::ranges::find(front, i) == front.end()) << i;
  }
}

class search : public testing::Test {
 protected:
  void SetUp() override {
    NpyArray few = read_npy(project_path("tools/samples/digits_test.npy"));
    few.dims = {kSamples};
    few.data.resize(kSamples * sizeof(int32_t));
    write_npy(few_, few);
  }

  std::vector<std::string> arguments(std::vector<std::string> options) const {
    std::vector<std::string> all = {"search",
                                    network_,
                                    "--data",
                                    samples_ + "images.npy",
                                    "--labels",
                                    samples_ + "labels.npy",
                                    "--indices",
                                    few_,
                                    "--cast-inputs",
                                    "-o",
                                    map_};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }

  static constexpr int kSamples = 40;

  const TemporaryDirectory directory_;
  const std::string network_ = project_path("tools/samples/digits.onnx"),
                    samples_ = project_path("tools/samples/digits_"), few_ = directory_ / "few.npy",
                    map_ = directory_ / "map.json";
};

TEST_F(search, writes_a_map_that_convert_takes_and_that_measures_as_it_said) {
  const ToolRun run =
      run_tool(arguments({"--policies", "float32,bfloat16,int8/weights_from_float32", "--budget", "30", "--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json result = Json::parse(run.out);
  EXPECT_LE(result["measurements"], 30);
  EXPECT_EQ(result["samples"], kSamples);
  const auto best = std::ranges::find_if(result["rows"], [](const Json& row) { return row["proposed"] == true; });
  ASSERT_NE(best, result["rows"].end());
  EXPECT_EQ((*best)["meets_limits"], true);
  EXPECT_LE((*best)["measured"]["drop"], 0);
  EXPECT_LT((*best)["measured"]["bytes"], result["reference"]["bytes"]);

  const std::string model = directory_ / "m.nacre";
  const ToolRun convert = run_tool({"convert", network_, "--policy-file", map_, "-o", model});
  ASSERT_EQ(convert.exit_code, 0) << convert.err;
  const ToolRun eval = run_tool({"eval", model, "--data", samples_ + "images.npy", "--labels", samples_ + "labels.npy",
                                 "--indices", few_, "--cast-inputs", "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const Json judged = Json::parse(eval.out)["models"][0];
  EXPECT_EQ(judged["value"], (*best)["measured"]["top1"]);
  EXPECT_EQ(judged["file_bytes"], (*best)["measured"]["bytes"]);
}

// Limits of one byte more and less: the file of a map that reads samples has the bytes that were compared.
TEST_F(search, counts_the_bytes_of_the_file_that_convert_writes) {
  const std::vector<std::string> kinds = {
      "--policies", "float32,int8/static_from_float32", "--max-drop", "100", "--budget", "12", "--json"};
  const ToolRun run = run_tool(arguments(kinds));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string model = directory_ / "m.nacre";
  const ToolRun convert = run_tool({"convert", network_, "--policy-file", map_, "-o", model, "--calibrate",
                                    samples_ + "images.npy", "--cast-samples"});
  ASSERT_EQ(convert.exit_code, 0) << convert.err;
  const uint64_t bytes = std::filesystem::file_size(model);
  const Json result = Json::parse(run.out);
  const auto best = std::ranges::find_if(result["rows"], [](const Json& row) { return row["proposed"] == true; });
  ASSERT_NE(best, result["rows"].end());
  EXPECT_EQ((*best)["measured"]["bytes"], bytes);
  for (const int less : {0, 1}) {
    std::vector<std::string> limited = kinds;
    limited.insert(limited.end(), {"--max-bytes", std::to_string(bytes - uint64_t(less))});
    EXPECT_EQ(run_tool(arguments(limited)).exit_code, less) << less;
  }
}

TEST_F(search, the_table_tells_what_was_predicted_and_what_was_measured) {
  const ToolRun run = run_tool(arguments({"--policies", "float32,int8/weights_from_float32", "--budget", "16"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"predicted", "drop", "Pareto front", "policy map -> ", "conv4", "40 samples"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part;
}

TEST_F(search, limits_that_nothing_meets_write_nothing) {
  const ToolRun run = run_tool(arguments({"--policies", "float32,bfloat16", "--max-bytes", "100", "--budget", "12"}));
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_NE(run.err.find("at most 100 bytes"), std::string::npos) << run.err;
  EXPECT_NE(run.out.find("Pareto front"), std::string::npos) << "the numbers that show it";
  EXPECT_FALSE(std::filesystem::exists(map_));
}

TEST_F(search, an_interrupt_keeps_the_best_map_that_was_measured_and_says_so) {
  const ToolRun run = run_tool(arguments({"--budget", "100000"}), {.interrupt = true});
  EXPECT_EQ(run.signal, SIGINT);
  EXPECT_NE(run.err.find("of 100000 models: the best of them is in "), std::string::npos) << run.err;
  ASSERT_TRUE(std::filesystem::exists(map_));
  EXPECT_EQ(directory_.entries(), 2u) << "the indices, the map";
  EXPECT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "--policy-file", map_, "-o",
                      directory_ / "m.nacre"})
                .exit_code,
            0);
}

TEST(policy_search, ends_where_it_is_stopped_with_what_was_measured) {
  const SearchProblem problem = {
      .layers = 4, .policies = 3, .limits = {.max_drop = 1}, .budget = 1000, .stopped = nullptr};
  int calls = 0;
  SearchProblem stopped = problem;
  stopped.stopped = [&] { return calls >= 5; };
  const SearchResult result = search_policies(stopped, [&](const PolicyChoice& choice) {
    ++calls;
    double bytes = 100;
    for (const int policy : choice) bytes -= policy;
    return std::optional<Trial>({.bytes = bytes, .metric = 1, .damage = 0, .microseconds = 1});
  });
  EXPECT_EQ(result.measurements, 5);
  EXPECT_EQ(result.rows.size(), 5u);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(*result.best, 0u) << "the smallest of the five";
}

TEST_F(search, refuses_what_makes_no_sense) {
  EXPECT_EQ(run_tool(arguments({"--policies", "float32"})).exit_code, 2);
  EXPECT_EQ(run_tool(arguments({"--policies", "float32,float32"})).exit_code, 2);
  EXPECT_EQ(run_tool(arguments({"--policies", "float32,int9"})).exit_code, 2);
  EXPECT_EQ(run_tool(arguments({"--max-drop", "-1"})).exit_code, 2);
  EXPECT_EQ(run_tool(arguments({"--metric", "f1"})).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(map_));
}

}  // namespace
}  // namespace nacre::tools
