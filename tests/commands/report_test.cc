// Tests nacre report: one page that stands alone and is well-formed for any names, with the numbers of the other
// commands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "tests/html_page.h"
#include "tests/run_tool.h"
#include "tools/base/format.h"
#include "tools/files/npy.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"
#include "tools/report/html.h"
#include "tools/report/html_report.h"
#include "tools/report/plots/scatter_plot.h"
#include "tools/report/report_layers.h"

namespace nacre::tools {
namespace {

class report : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [model, option] : {std::pair{a_, "--verbose"}, std::pair{b_, "--no-fold-bn"}})
      ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, option}).exit_code, 0);
  }

  std::string page(std::vector<std::string> models, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {"report"};
    arguments.insert(arguments.end(), models.begin(), models.end());
    arguments.insert(arguments.end(), {"-o", html_});
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    if (run.exit_code != 0) return "";
    const std::vector<uint8_t> bytes = read_bytes(html_);
    return {bytes.begin(), bytes.end()};
  }

  const TemporaryDirectory directory_;
  const std::string a_ = directory_ / "a.nacre", b_ = directory_ / "b.nacre", html_ = directory_ / "report.html",
                    samples_ = project_path("tools/samples/digits_");
  const std::vector<std::string> set_ = {"--data",    samples_ + "images.npy", "--labels",     samples_ + "labels.npy",
                                         "--indices", samples_ + "test.npy",   "--cast-inputs"};
};

TEST_F(report, has_the_numbers_that_eval_gives) {
  const std::string html = page({a_, b_}, set_);
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_EQ(count_of(html, "444 of 450"), 4u);  // for each model in the text and in the table
  EXPECT_TRUE(has(html, "b.nacre against a.nacre"));
  EXPECT_EQ(count_of(html, "<svg xmlns"), 4u);  // two graphs, plots of size and of latency
  EXPECT_EQ(count_of(html, "class=\"page-matrix\""), 2u);
  for (const char* words :
       {"Confusion matrix", "Quantization error by layer", "latency, us per sample", "Pareto front"})
    EXPECT_TRUE(has(html, words)) << words;
  for (const char* layer : {"conv1", "depthwise", "fc", "softmax"}) EXPECT_TRUE(has(html, layer)) << layer;
  EXPECT_TRUE(has(html, "color-scheme: light dark"));
}

TEST_F(report, prints_the_numbers_of_eval_compare_and_inspect_as_json) {
  const auto said = [&](std::vector<std::string> words) {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out);
  };
  const auto with_set = [&](std::vector<std::string> words, std::vector<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), set_.begin(), set_.end());
    return words;
  };
  const Json json = said(with_set({"report", a_, b_, "-o", html_, "--json", "--profile"}, {}));
  EXPECT_EQ(json["page"], html_);
  EXPECT_TRUE(has(std::string(json["models"][1]["model"]), "b.nacre"));
  Json judged = json["evaluation"], evaluated = said(with_set({"eval", a_, b_, "--json"}, {}));
  for (Json* each : {&judged, &evaluated})
    for (size_t i = 0; i < 2; ++i) (*each)["models"][i].erase("median_us");
  EXPECT_EQ(judged, evaluated);
  std::vector<std::string> samples = {"compare", a_, b_, "--json", "--sort", "execution", "--cast-inputs"};
  samples.insert(samples.end(), {"--data", set_[1], "--indices", set_[5]});
  EXPECT_EQ(json["models"][1]["comparison"], said(samples));
  EXPECT_FALSE(json["models"][0].contains("comparison"));
  for (const Json& model : json["models"]) {
    const Json inspected = said({"inspect", std::string(model["model"]), "--json"});
    EXPECT_EQ(model["file_bytes"], inspected["file_bytes"]);
    EXPECT_GT(double(model["profile"]["median_us"]), 0);
    EXPECT_FALSE(std::string(model["kernels"]).empty());
  }
  EXPECT_EQ(malformed_page(page({a_, b_}, {"--json"})), "");
}

TEST_F(report, json_of_a_network_names_its_policies) {
  const ToolRun run = run_tool({"report", project_path("tools/samples/digits.onnx"), "-o", html_, "--json",
                                "--policies", "float32,int8_from_float32"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json["models"][1]["model"], "int8");
  EXPECT_FALSE(json.contains("evaluation"));
}

TEST_F(report, needs_no_data) {
  const std::string html = page({a_});
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(count_of(html, "<svg xmlns"), 1u);
  EXPECT_FALSE(has(html, " against "));
  EXPECT_TRUE(has(html, "None: every step runs in the types of its layer"));
  EXPECT_TRUE(has(html, "Latency was not measured"));
}

TEST_F(report, has_the_time_and_the_kernels_of_each_layer_when_asked) {
  EXPECT_FALSE(has(page({a_}), "GMAC/s"));
  const std::string html = page({a_, b_}, {"--profile", "--kernels", "reference"});
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_EQ(count_of(html, "GMAC/s"), 2u);
  EXPECT_EQ(count_of(html, "of roof"), 2u);
  EXPECT_TRUE(has(html, "with reference kernels on one thread"));
  EXPECT_TRUE(has(html, "reference/conv2d_f32"));
}

TEST_F(report, the_same_models_give_the_same_page) {
  EXPECT_EQ(page({a_, b_}), page({a_, b_}));
  std::vector<std::string> options = set_;
  options.emplace_back("--no-latency");
  const std::string html = page({a_, b_}, options);
  EXPECT_EQ(html, page({a_, b_}, options));
  EXPECT_EQ(count_of(html, "<svg xmlns"), 3u);  // two graphs, a plot of size
  EXPECT_FALSE(has(html, "us per sample"));
  EXPECT_TRUE(has(html, "leaves latency out"));
}

TEST_F(report, no_latency_acts_on_judged_models_only) {
  EXPECT_EQ(run_tool({"report", a_, "-o", html_, "--no-latency"}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", a_, "-o", html_, "--no-latency", "--profile"}).exit_code, 2);
}

TEST_F(report, a_network_is_compiled_under_each_policy_as_convert_does) {
  const std::string network = project_path("tools/samples/digits.onnx"), c = directory_ / "c.nacre";
  std::vector<std::string> options = set_;
  options.insert(options.end(), {"--policies", "float32,int8_from_float32,int8/static_from_float32", "--no-latency"});
  const std::string html = page({network}, options);
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_EQ(html, page({network}, options));
  EXPECT_TRUE(has(html, "<h1>digits.onnx under 3 policies</h1>"));
  ASSERT_EQ(run_tool({"convert", network, "-o", c, "--policy", "int8_from_float32"}).exit_code, 0);
  EXPECT_TRUE(has(html, "<b>int8</b>: top-1 accuracy 98.67 % (444 of 450 correct), no drop; " +
                            grouped(read_bytes(c).size()) + " bytes"));
  EXPECT_TRUE(has(html, "<b>int8/static</b>"));
}

TEST_F(report, refuses_policies_that_make_no_sense) {
  const std::string network = project_path("tools/samples/digits.onnx");
  EXPECT_EQ(run_tool({"report", a_, "-o", html_, "--policies", "float32"}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", network, a_, "-o", html_}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", network, "-o", html_, "--policies", "float32,float32"}).exit_code, 2);
  const ToolRun nonsense = run_tool({"report", network, "-o", html_, "--policies", "float32,nonsense"});
  EXPECT_EQ(nonsense.exit_code, 2);
  EXPECT_TRUE(has(nonsense.err, "--policies: cannot convert 'nonsense'")) << nonsense.err;
  const ToolRun no_samples = run_tool({"report", network, "-o", html_, "--policies", "int8/static_from_float32"});
  EXPECT_EQ(no_samples.exit_code, 2);
  EXPECT_TRUE(has(no_samples.err, "needs samples, and none are given")) << no_samples.err;
}

TEST_F(report, names_the_kernels_that_judged_and_timed) {
  const std::string html = page({a_}, [&] {
    std::vector<std::string> options = set_;
    options.insert(options.end(), {"--kernels", best_set(), "--profile"});
    return options;
  }());
  EXPECT_TRUE(has(html, "evaluated with kernels " + best_set() + "."));
  EXPECT_TRUE(has(html, "us per run with kernels " + best_set()));
  EXPECT_TRUE(has(html, "<dt>kernels, threads</dt><dd>" + best_set() + ", 1 thread</dd>"));
  std::vector<std::string> judged = set_;
  judged.insert(judged.end(), {"--kernels", best_set()});
  EXPECT_TRUE(has(page({a_, b_}, judged), "us per sample with kernels " + best_set()));  // of the evaluation
}

TEST_F(report, never_calibrates_on_the_samples_that_judge_without_saying_so) {
  const std::string network = project_path("tools/samples/digits.onnx"), data = samples_ + "images.npy";
  const auto made = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments = {"report",       network,
                                          "-o",           html_,
                                          "--policies",   "float32,int8/static_from_float32",
                                          "--data",       data,
                                          "--labels",     samples_ + "labels.npy",
                                          "--cast-inputs"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::vector<uint8_t> bytes = read_bytes(html_);
    return std::pair(run.err, std::string(bytes.begin(), bytes.end()));
  };
  const auto [said, split] = made({});
  EXPECT_TRUE(has(said, "drawn at random: they are not judged, the other 1,597 are")) << said;
  EXPECT_TRUE(has(split, "the other 1,597 are") && has(split, "1,597 samples, evaluated")) << said;
  const auto [apart, indexed] = made({"--indices", samples_ + "test.npy"});
  EXPECT_TRUE(has(apart, "200 samples of") && has(apart, "that --indices does not name")) << apart;
  EXPECT_TRUE(has(indexed, "450 samples, evaluated"));
  const auto [named, given] = made({"--indices", samples_ + "test.npy", "--calibrate", data});
  EXPECT_TRUE(has(named, "of which some or all are judged too")) << named;
  EXPECT_TRUE(has(given, "450 samples, evaluated"));
  std::filesystem::copy_file(data, directory_ / "copy.npy");
  EXPECT_TRUE(has(made({"--calibrate", directory_ / "copy.npy"}).first, "of which some or all are judged too"));
}

TEST_F(report, splits_labels_of_any_shape_with_their_samples) {
  NpyArray labels = read_npy(samples_ + "labels.npy");
  labels.dims = {1, labels.elements()};
  write_npy(directory_ / "labels.npy", labels);
  std::vector<std::string> right;
  for (const std::string& file : {samples_ + "labels.npy", directory_ / "labels.npy"}) {
    const std::string html =
        page({project_path("tools/samples/digits.onnx")}, {"--policies", "float32,int8/static_from_float32", "--data",
                                                           samples_ + "images.npy", "--labels", file, "--cast-inputs"});
    const size_t at = html.find(" of 1597");
    ASSERT_NE(at, std::string::npos);
    right.push_back(html.substr(at - 5, 5));
  }
  EXPECT_EQ(right[0], right[1]);
}

TEST(scatter_plot, no_axis_of_shares_passes_100_percent) {
  const ScatterPlot plot = {.x_name = "x",
                            .y_name = "y",
                            .percent = true,
                            .y_least = 0,
                            .y_most = 1,
                            .points = {{.name = "a", .x = 1, .y = 1}, {.name = "b", .x = 2, .y = 0.9}}};
  const std::string svg = scatter_plot(plot);
  EXPECT_TRUE(has(svg, ">100 %<"));
  EXPECT_FALSE(has(svg, ">102 %<") || has(svg, ">105 %<") || has(svg, ">110 %<"));
}

TEST_F(report, is_written_whole_or_not_at_all) {
  write_bytes(html_, {'o', 'l', 'd'});
  const ToolRun full = run_tool({"report", a_, "-o", html_}, {.file_limit_bytes = 1000});
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_EQ(read_bytes(html_), (std::vector<uint8_t>{'o', 'l', 'd'}));
  EXPECT_EQ(run_tool({"report", a_, directory_ / "none", "-o", html_}).exit_code, 5);
  EXPECT_EQ(read_bytes(html_), (std::vector<uint8_t>{'o', 'l', 'd'}));
}

TEST_F(report, refuses_what_makes_no_sense) {
  EXPECT_EQ(run_tool({"report", a_, "-o", a_}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", a_}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", a_, "-o", html_, "--kernels", "reference"}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", a_, "-o", html_, "--labels", samples_ + "labels.npy"}).exit_code, 2);
  EXPECT_EQ(run_tool({"report", a_, "-o", html_, "--data", samples_ + "images.npy"}).exit_code, 2);
  const ToolRun uncast = run_tool({"report", a_, b_, "-o", html_, "--data", samples_ + "images.npy"});
  EXPECT_EQ(uncast.exit_code, 3);
  EXPECT_TRUE(has(uncast.err, "holds uint8")) << uncast.err;
}

TEST(html, hostile_texts_stay_text) {
  const std::string hostile = "</td><script>alert('x')</script>&\"\xff\x01";
  Html page(hostile);
  page.heading(2, hostile);
  page.paragraph(hostile);
  page.list({hostile});
  page.table({hostile}, {{hostile}});
  page.open_details(hostile);
  page.table({hostile, hostile}, {{name_cells({hostile + hostile})[0], {.text = hostile, .bar = 2}}},
             {.caption = hostile});
  page.figure(scatter_plot({.label = hostile,
                            .x_name = hostile,
                            .y_name = hostile,
                            .points = {{.name = hostile, .x = 1, .y = 1, .title = hostile}}}),
              hostile);
  page.open_section(hostile);
  page.open_tabs(hostile);
  page.open_tab(hostile);
  page.facts({{hostile, hostile}});
  page.named_list({{hostile, hostile}});
  page.definitions({{hostile, hostile}});
  page.close_tab();
  page.close_tabs();
  page.close_section();
  page.close_details();
  const std::string html = page.finish();
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_GE(count_of(html, "&lt;script&gt;"), 8u);
}

// Makes an activation of 8 values per row.
Value eight(const std::string& name, ElementType type = ElementType::kFloat32) {
  Value value;
  value.name = name;
  value.type = type;
  value.dims = {1, 8};
  value.batched = true;
  return value;
}

TEST(html_report, lists_fall_backs_and_hostile_names) {
  Graph graph = parse("");
  const ValueId x = graph.add(eight("</x>")), y = graph.add(eight("<script>"));
  graph.inputs = {{"in", x, ""}};
  graph.outputs = {{"out", y, ""}};
  Node node = {.op = Op::kAdd, .name = "n", .words = {}, .inputs = {x, x}, .outputs = {y}};
  node.layer = graph.add_layer({"</table>", "Add", {}});
  graph.nodes = {node};
  graph.metadata = {{"fallbacks", "</table> (add): wants float16, runs in float32: it has no such kernel"}};
  plan_memory(graph, {});
  const ProgramSource source = {.graph = &graph};
  const LoadedModel model(write_model({&source, 1}), "test", "");
  const ProgramReport program(model, 0);
  const std::string html = html_report({{.program = &program}}, {});
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_TRUE(has(html, "<li>&lt;/table&gt; (add): wants float16"));
}

TEST(html, short_names_are_as_different_as_the_names) {
  const std::string front(20, 'a'), end(100, 'z');
  const std::vector<Cell> cells = name_cells({front + "1" + end, front + "2" + end, "short", "short"});
  EXPECT_NE(cells[0].text, cells[1].text);
  EXPECT_LT(cells[0].text.size(), 121u);
  EXPECT_EQ(cells[0].full, front + "1" + end);
  EXPECT_EQ(cells[2].text, "short");
}

TEST(report_layers, bars_tell_29_from_45_decibels) {
  std::vector<float> a(1000, 1), noise29 = a, noise45 = a;
  for (size_t i = 0; i < a.size(); ++i) {
    noise29[i] += float(std::pow(10, -29.0 / 20)) * (i % 2 == 0 ? 1.0f : -1.0f);
    noise45[i] += float(std::pow(10, -45.0 / 20)) * (i % 2 == 0 ? 1.0f : -1.0f);
  }
  Comparison comparison;
  for (const std::vector<float>* b : {&noise45, &noise29, &a}) {
    comparison.tensors.push_back({.a = 0, .b = 0, .step = 0, .step_b = 0, .error = {}});
    comparison.tensors.back().error.add(std::span<const float>(a), std::span<const float>(*b));
  }
  EXPECT_EQ(full_bar_decibels(comparison), 60);
  EXPECT_EQ(worst_first(comparison), (std::vector<size_t>{1, 0}));  // what is equal loses nothing
  EXPECT_EQ(decibel_text(comparison.tensors[1].error), "29.0 dB");
  EXPECT_EQ(decibel_text(comparison.tensors[2].error), "equal");
}

TEST(scatter_plot, the_front_is_what_nothing_beats_in_both) {
  const ScatterPlot plot = {.x_name = "bytes",
                            .y_name = "top1",
                            .points = {{.name = "a", .x = 4, .y = 0.9},
                                       {.name = "b", .x = 2, .y = 0.9},
                                       {.name = "c", .x = 1, .y = 0.5},
                                       {.name = "d", .x = 3, .y = 0.7},
                                       {.name = "e", .x = 0.5, .y = std::nan("")}}};
  EXPECT_EQ(pareto_points(plot), (std::vector<bool>{false, true, true, false, false}));
  const std::string svg = scatter_plot(plot);
  EXPECT_EQ(count_of(svg, "class=\"scatter-point\""), 2u);
  EXPECT_EQ(count_of(svg, "class=\"scatter-beaten\""), 2u);
  EXPECT_EQ(count_of(svg, "nan"), 0u);
}

TEST_F(report, names_classes_as_the_model_does) {
  const std::string labels = directory_ / "labels.txt", named = directory_ / "named.nacre";
  const std::string text =
      "zero\n<one>\ntwo\nthree\nfour of a name too long for a column\nfive\nsix\nsix\neight\nnine\n";
  write_bytes(labels, {text.begin(), text.end()});
  const std::vector<std::string> convert = {
      "convert", project_path("tools/samples/digits.onnx"), "-o", named, "--labels", labels};
  ASSERT_EQ(run_tool(convert).exit_code, 0);
  const std::string html = page({named, a_}, set_);
  EXPECT_EQ(malformed_page(html), "");
  for (const char* cell : {">zero</th>", ">&lt;one&gt;</th>", ">six (6)</th>", ">six (7)</th>"})
    EXPECT_EQ(count_of(html, cell), 2u) << cell;  // in a column head and in a row head
  EXPECT_TRUE(has(html, "title=\"four of a name too long for a column\">"));
  EXPECT_EQ(count_of(html, "<th scope=\"row\">6</th>"), 1u);      // for the model without names
  EXPECT_EQ(count_of(html, ": most frequent confusions, "), 6u);  // in the caption and two labels of each model
}

TEST(confusion, counts_each_predicted_class_by_true_class) {
  const ScoredSamples samples = {
      .samples = 4, .outputs = {0.9, 0.1, 0, 0.2, 0.5, 0.5, 1, 0, 0, std::nan(""), 0, 0}, .inputs = {}};
  const Confusion c = confusion(parse_metric("top1"), samples, {.classes = {0, 2, 0, 1}, .targets = {}});
  EXPECT_EQ(c.classes, 3u);
  EXPECT_EQ(c.at(0, 0), 2u);
  EXPECT_EQ(c.at(2, 1), 1u);  // the first of equal outputs
  EXPECT_EQ(std::accumulate(c.counts.begin(), c.counts.end(), uint64_t{0}), 3u);
  EXPECT_EQ(confusion(parse_metric("mse"), samples, {}).classes, 0u);
}

}  // namespace
}  // namespace nacre::tools
