// Tests pictures: they are well-formed for any names, have the same bytes for the same model, and no edge crosses a
// box.
#include "tools/report/picture/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tools/base/error.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"
#include "tools/policies/policy_name.h"
#include "tools/report/picture/layout.h"
#include "tools/report/picture/picture.h"

namespace nacre::tools {
namespace {

// Checks tags, attributes and references: enough of XML 1.0 for the output of Svg. Returns the error, or "".
std::string malformed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const size_t end = xml.find(';', at);
      if (end == std::string::npos || end - at > 6) return "a reference does not end: " + xml.substr(at, 20);
      at = end + 1;
      continue;
    }
    if (xml[at] != '<') {
      if (xml[at] == '>' || (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n' && xml[at] != '\t'))
        return "a character stands bare: " + xml.substr(at, 20);
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = xml.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find_first_of(" /", 1));
    if (std::ranges::count(tag, '"') % 2 != 0 || tag.find('<') != std::string::npos) return "a tag is broken: " + tag;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closed but not open: " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "still open: " + open.back();
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

// Makes a random network of clamps and adds over [1, 8] float32, with chains, forks and long skips. Every name begins
// with `prefix`.
Graph random_network(uint32_t seed, int nodes, const std::string& prefix = "") {
  std::mt19937 random(seed);
  Graph graph;
  const auto value = [&](const std::string& name) { return graph.add(eight(prefix + name)); };
  std::vector<ValueId> made = {value("x")};
  graph.inputs = {{prefix + "x", made[0], "NHWC"}};
  for (int i = 0; i < nodes; ++i) {
    const auto pick = [&] {
      return made[made.size() - 1 - random() % std::min<size_t>(made.size(), 1 + random() % 12)];
    };
    Node node = {.op = random() % 2 == 0 ? Op::kClamp : Op::kAdd,
                 .name = prefix + "n" + std::to_string(i),
                 .words = {},
                 .inputs = {},
                 .outputs = {}};
    node.layer = graph.add_layer({node.name, "Op", {}});
    node.inputs = {made.back()};
    if (node.op == Op::kAdd) node.inputs.push_back(pick());
    made.push_back(value("v" + std::to_string(i)));
    node.outputs = {made.back()};
    graph.nodes.push_back(node);
  }
  graph.outputs = {{prefix + "y", made.back(), ""}};
  const Target target;
  schedule(graph, target);
  plan_memory(graph, target);
  return graph;
}

std::string picture_of(const Graph& graph) {
  const ProgramSource source = {.graph = &graph};
  const LoadedModel model(write_model({&source, 1}), "test", "");
  return picture(ProgramReport(model, 0), "test.nacre");
}

TEST(svg, escapes_what_xml_does_not_allow) {
  EXPECT_EQ(xml_escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(xml_escape("\x01\x1b[31m"), "\uFFFD\uFFFD[31m");
  EXPECT_EQ(xml_escape("\xff\xc0\xaf\xed\xa0\x80"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");            // no UTF-8, overlong, surrogate
  EXPECT_EQ(xml_escape("\xef\xbf\xbe"), "\uFFFD\uFFFD\uFFFD");  // U+FFFE
  EXPECT_EQ(xml_escape("\u00e4 \u4e2d \U0001F600"), "\u00e4 \u4e2d \U0001F600");
}

TEST(svg, numbers_have_at_most_one_decimal) {
  EXPECT_EQ(svg_number(3), "3");
  EXPECT_EQ(svg_number(2.25), "2.3");
  EXPECT_EQ(svg_number(-0.04), "0");
  EXPECT_EQ(svg_number(1e6), "1000000");
}

TEST(svg, the_checker_of_these_tests_sees_broken_xml) {
  EXPECT_EQ(malformed("<a><b x=\"1\"/>&amp;</a>"), "");
  for (const char* broken : {"<a>", "<a></b>", "<a>&amp</a>", "a<b", "<a b=\"></a>", "<a>\x01</a>"})
    EXPECT_NE(malformed(broken), "") << broken;
}

TEST(spread, keeps_what_is_far_enough_apart) {
  EXPECT_EQ(spread({0, 30, 60}, {10, 10}, {1, 1, 1}), (std::vector<double>{0, 30, 60}));
}

TEST(spread, shares_the_shift_by_weight) {
  EXPECT_EQ(spread({0, 0}, {10}, {1, 1}), (std::vector<double>{-5, 5}));
  EXPECT_EQ(spread({0, 0}, {10}, {3, 1}), (std::vector<double>{-2.5, 7.5}));  // sum of w d = 0
}

TEST(layout, a_chain_is_straight) {
  std::vector<LayoutEdge> edges;
  for (int i = 0; i + 1 < 31; ++i) edges.push_back({i, i + 1});
  edges.push_back({3, 9});  // a skip does not bend it
  const GraphLayout layout = lay_out(31, edges);
  for (int i = 0; i < 31; ++i) {
    EXPECT_EQ(layout.row[size_t(i)], i);
    EXPECT_NEAR(layout.x[size_t(i)], layout.x[0], 1e-6);
  }
}

TEST(layout, edges_go_down_and_pass_no_box) {
  const LayoutOptions options;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int nodes = 2 + int(random() % 60);
    std::vector<LayoutEdge> edges;
    for (int to = 1; to < nodes; ++to)
      for (uint32_t k = 0; k < 1 + random() % 3; ++k) edges.push_back({int(random() % uint32_t(to)), to});
    const GraphLayout layout = lay_out(nodes, edges, options);
    const auto row = [&](int node) { return layout.row[size_t(node)]; };
    for (int a = 0; a < nodes; ++a) {
      EXPECT_GE(layout.x[size_t(a)], options.box_width / 2 - 1e-6) << seed;
      EXPECT_LE(layout.x[size_t(a)], layout.width - options.box_width / 2 + 1e-6) << seed;
      EXPECT_LE(row(std::max(a - 1, 0)), row(a)) << seed;
      for (int b = 0; b < a; ++b) {
        const double apart = std::abs(layout.x[size_t(a)] - layout.x[size_t(b)]);
        EXPECT_TRUE(row(a) != row(b) || apart >= options.box_width) << seed;
      }
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      ASSERT_EQ(int(layout.lanes[e].size()), row(edges[e].to) - row(edges[e].from) - 1) << seed;
      for (size_t i = 0; i < layout.lanes[e].size(); ++i)
        for (int node = 0; node < nodes; ++node) {
          const bool same_row = row(node) == row(edges[e].from) + 1 + int(i);
          EXPECT_TRUE(!same_row || std::abs(layout.lanes[e][i] - layout.x[size_t(node)]) > options.box_width / 2)
              << seed;
        }
    }
  }
}

TEST(picture, is_well_formed_and_the_same_every_time) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const Graph graph = random_network(seed, 1 + int(seed) * 4);
    const std::string svg = picture_of(graph);
    EXPECT_EQ(malformed(svg), "") << seed;
    EXPECT_EQ(svg, picture_of(graph)) << seed;
  }
}

TEST(picture, hostile_names_stay_text) {
  const std::string svg = picture_of(random_network(1, 9, "</title><script>alert('x')</script>&\"\xff\x01"));
  EXPECT_EQ(malformed(svg), "");
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;"), std::string::npos);
}

TEST(picture, shows_every_step_and_every_tensor_once) {
  const Graph graph = random_network(5, 31);
  const ProgramSource source = {.graph = &graph};
  const LoadedModel model(write_model({&source, 1}), "test", "");
  const ProgramReport report(model, 0);
  const std::string svg = picture(report, "test.nacre");
  const auto count = [&](const std::string& part) {
    size_t n = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<rect class=\"box float32\""), report.steps().size() + 1);  // and the legend
  EXPECT_EQ(count("<rect class=\"box io\""), 2u);
  size_t tensors = 0;
  for (uint32_t i = 0; i < report.view().tensor_count; ++i)
    tensors += report.tensor(report.view().first_tensor + i).alias_of == kNoIndex ? 1 : 0;
  EXPECT_EQ(count("<rect class=\"tensor "), tensors + 1);  // and the legend
}

TEST(picture, every_policy_has_its_colour_and_its_place_in_the_legend) {
  using enum ElementType;
  const std::vector<std::pair<Policy, std::string>> policies = {
      {{}, "float32"},
      {{.variable = kFloat64, .compute = kFloat64, .output = kFloat64}, "float64"},
      {{.variable = kFloat16, .compute = kFloat16, .output = kFloat16}, "float16"},
      {{.variable = kBfloat16, .compute = kBfloat16, .output = kBfloat16}, "bfloat16"},
      {{.compute = kFloat16, .output = kFloat16}, "mixed"},
      {{.quantization = Quantization::kInt8Static}, "static"},
      {{.quantization = Quantization::kInt8Dynamic}, "dynamic"},
      {{.quantization = Quantization::kInt8Weights}, "weights"},
      {{.quantization = Quantization::kInt4Weights, .block = 32}, "int4"},
      {{.quantization = Quantization::kFloat8, .amax_history_length = 1024}, "float8"}};
  Graph graph = random_network(6, int(policies.size()));
  for (size_t i = 0; i < policies.size(); ++i) graph.layers[i].policy = policies[i].first;
  const std::string svg = picture_of(graph);
  EXPECT_EQ(malformed(svg), "");
  for (const auto& [policy, css] : policies) {
    const std::string box = "<rect class=\"box " + css + "\"";
    const size_t first = svg.find(box);
    ASSERT_NE(first, std::string::npos) << css;
    EXPECT_NE(svg.find(box, first + 1), std::string::npos) << css << ": one in the legend, one in the graph";
    EXPECT_NE(svg.find("." + css + " { fill: #"), std::string::npos) << css;
    EXPECT_NE(svg.find(">" + xml_escape(policy_name(policy)) + "</text>"), std::string::npos) << css;
  }
}

TEST(picture, what_runs_in_another_type_than_its_policy_says_is_dashed) {
  Graph graph = random_network(6, 5);
  EXPECT_EQ(picture_of(graph).find("fallback\""), std::string::npos);
  graph.metadata = {{"fallbacks", graph.layers[2].name + " (add): wants float16, runs in float32: no kernel\n" +
                                      graph.layers[4].name + " (add): wants float16, runs in float32: no kernel\n"}};
  const std::string svg = picture_of(graph);
  EXPECT_EQ(malformed(svg), "");
  const std::string box = "<rect class=\"box float32 fallback\"";
  const size_t first = svg.find(box);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(svg.find(box, first + 1), std::string::npos) << "the second line counts, too";
  EXPECT_NE(svg.find("<rect class=\"box fallback\""), std::string::npos);  // the legend's
}

TEST(picture, pictures_of_one_page_have_arrows_of_their_own) {
  const Graph graph = random_network(3, 4);
  const ProgramSource source = {.graph = &graph};
  const LoadedModel model(write_model({&source, 1}), "test", "");
  const std::string svg = picture(ProgramReport(model, 0), "test", {.arrow = "tip7"});
  EXPECT_NE(svg.find("<marker id=\"tip7\""), std::string::npos);
  EXPECT_NE(svg.find("url(#tip7)"), std::string::npos);
  EXPECT_EQ(svg.find("url(#arrow)"), std::string::npos);
}

TEST(picture, what_is_too_large_is_refused) {
  Graph graph = random_network(2, 1);
  const auto x = graph.nodes[0].outputs[0];
  for (size_t i = 0; i < kMostPictureSteps; ++i) {
    Node node = {.op = Op::kClamp,
                 .name = "more",
                 .words = {},
                 .inputs = {i == 0 ? x : ValueId(graph.values.size() - 1)},
                 .outputs = {}};
    node.layer = 0;
    node.outputs = {graph.add(eight("w"))};
    graph.nodes.push_back(node);
  }
  graph.outputs[0].value = ValueId(graph.values.size() - 1);
  plan_memory(graph, {});
  EXPECT_THROW(picture_of(graph), Error);
}

}  // namespace
}  // namespace nacre::tools
