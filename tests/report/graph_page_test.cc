// Tests the page of a model: it links every step, has the same bytes every time, shows hostile names as text, and
// bounds large models. Histograms are compared with sums computed here.
#include "tools/report/graph_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/html_page.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"
#include "tools/report/picture/style.h"
#include "tools/report/plots/histogram.h"

namespace nacre::tools {
namespace {

// Builds x -> clamp -> clamp -> ..: `steps` clamps over [1, 8] float32.
std::vector<uint8_t> clamps(size_t steps, const std::string& prefix) {
  Graph graph;
  const auto row = [&](const std::string& name) {
    Value value;
    value.name = prefix + name;
    value.type = ElementType::kFloat32;
    value.dims = {1, 8};
    value.batched = true;
    return graph.add(value);
  };
  ValueId last = row("x");
  graph.inputs = {{prefix + "x", last, "NHWC"}};
  for (size_t i = 0; i < steps; ++i) {
    Node node = {.op = Op::kClamp, .name = prefix + std::to_string(i), .words = {}, .inputs = {last}, .outputs = {}};
    node.layer = graph.add_layer({node.name, "Clip", {}});
    last = row("y" + std::to_string(i));
    node.outputs = {last};
    graph.nodes.push_back(node);
  }
  graph.outputs = {{prefix + "y", last, ""}};
  graph.metadata = {{"key", prefix}};
  plan_memory(graph, {});
  const ProgramSource source = {.graph = &graph};
  return write_model({&source, 1});
}

std::string page_of(const std::vector<uint8_t>& bytes, const std::string& name = "test.nacre") {
  return graph_page(LoadedModel(bytes, "test", ""), {.name = name, .kernels = "reference"});
}

TEST(graph_page, every_step_is_led_to_and_is_there_once) {
  const std::string html = page_of(clamps(7, ""));
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "");
  for (int step = 0; step < 7; ++step) {
    const std::string id = "p0-step" + std::to_string(step);
    EXPECT_EQ(count_of(html, " id=\"" + id + "\""), 1u);
    EXPECT_EQ(count_of(html, "href=\"#" + id + "\""), 2u);  // of the graph and of the table
  }
  EXPECT_EQ(html, page_of(clamps(7, "")));
}

TEST(graph_page, hostile_names_stay_text) {
  const std::string hostile = "</title></script><script>alert('x')</script>\" onload='y'&\xff\x01";
  const std::string html = page_of(clamps(3, hostile), hostile);
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(reaches_out(html), "onload");  // as text
  EXPECT_EQ(without_script(html).find("<script"), std::string::npos);
  EXPECT_EQ(without_script(html).find("alert('x')"), std::string::npos);
  EXPECT_GE(count_of(html, "&lt;script&gt;"), 8u);
}

TEST(graph_page, a_large_model_is_counted_and_not_drawn) {
  const std::string html = page_of(clamps(kMostPageSteps + 100, ""));
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_TRUE(has(html, "There is no graph"));
  EXPECT_TRUE(has(html, "100 steps more are left out"));
  EXPECT_EQ(count_of(html, "class=\"graph-step\""), kMostPageSteps);
  EXPECT_LT(html.size(), kMostPageSteps * 4000);
}

TEST(graph_page, long_names_are_shortened) {
  const std::string name(900, 'n');
  const std::string html = page_of(clamps(2, name));
  EXPECT_EQ(malformed_page(html), "");
  EXPECT_EQ(count_of(html, std::string(kMostShownName, 'n')), 900 / kMostShownName);  // the metadata's value alone
}

TEST(histogram, counts_every_element_once) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(std::sin(i * 0.37) * (i % 7 == 0 ? 0.0 : 2.5));
  values.push_back(std::nan(""));
  values.push_back(-std::numeric_limits<double>::infinity());
  const WeightHistogram h = histogram_of(values);
  EXPECT_EQ(h.elements, 1002u);
  EXPECT_EQ(h.not_finite, 2u);
  EXPECT_EQ(std::accumulate(h.counts.begin(), h.counts.end(), uint64_t{0}), 1000u);
  EXPECT_EQ(h.zeros, 143u);
  const double width = (h.max - h.min) / double(WeightHistogram::kBins);
  for (size_t bin = 0; bin < WeightHistogram::kBins; ++bin) {  // a value on an edge may round to either side
    uint64_t least = 0, most = 0;
    for (const double v : values) {
      const double at = (v - h.min) / width;
      least += at > double(bin) + 1e-9 && at < double(bin) + 1 - 1e-9 ? 1 : 0;
      most += at > double(bin) - 1e-9 && at < double(bin) + 1 + 1e-9 ? 1 : 0;
    }
    EXPECT_GE(h.counts[bin], least) << bin;
    EXPECT_LE(h.counts[bin], most) << bin;
  }
}

TEST(histogram, of_one_value_and_of_none) {
  const WeightHistogram same = histogram_of(std::vector<double>{3, 3, 3});
  EXPECT_EQ(same.counts[0], 3u);
  EXPECT_EQ(same.mean, 3);
  EXPECT_EQ(histogram_of({}).elements, 0u);
  EXPECT_EQ(histogram_of(std::vector<double>{-1e308, 1e308}).counts[31], 1u);
  EXPECT_FALSE(has(histogram_svg(same, "a<b"), "<b\""));
}

}  // namespace
}  // namespace nacre::tools
