// nacre report: one page that stands alone, well-formed whatever the names are, with the numbers that the other
// commands give.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/run_tool.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"
#include "tools/report/bar_plot.h"
#include "tools/report/html.h"
#include "tools/report/html_report.h"

namespace nacre::tools {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// Whether every element that was opened is closed in its order, void elements apart, and every id is there once.
// Returns what is wrong, "" if nothing is.
std::string malformed(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = html.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '!' || name == "meta" || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != tag.substr(1)) return "closed but not open: " + tag;
      open.pop_back();
    }
  }
  if (!open.empty()) return "still open: " + open.back();
  std::set<std::string> ids;
  for (size_t at = html.find(" id=\""); at != std::string::npos; at = html.find(" id=\"", at + 1)) {
    const std::string id = html.substr(at + 5, html.find('"', at + 5) - at - 5);
    if (!ids.insert(id).second) return "an id is there twice: " + id;
  }
  return "";
}

// Nothing is fetched, nothing runs. Namespaces of SVG are names, not addresses.
std::string reaches_out(std::string html) {
  const std::string space = "xmlns=\"http://www.w3.org/2000/svg\"";
  for (size_t at = html.find(space); at != std::string::npos; at = html.find(space)) html.erase(at, space.size());
  for (const char* word :
       {"<script", "http:", "https:", "src=", "href=", "@import", "<link", "<iframe", "onload", "onclick"})
    if (has(html, word)) return word;
  return "";
}

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
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_EQ(count(html, "444 of 450"), 2u);
  EXPECT_TRUE(has(html, "b.nacre against a.nacre"));
  EXPECT_EQ(count(html, "<svg "), 3u);  // two graphs, one plot of errors
  for (const char* layer : {"conv1", "depthwise", "fc", "softmax"}) EXPECT_TRUE(has(html, layer)) << layer;
  EXPECT_TRUE(has(html, "color-scheme: light dark"));
}

TEST_F(report, needs_no_data) {
  const std::string html = page({a_});
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(count(html, "<svg "), 1u);
  EXPECT_FALSE(has(html, " against "));
  EXPECT_TRUE(has(html, "None: every step runs as its layer"));
}

TEST_F(report, has_the_time_and_the_kernels_of_each_layer_when_asked) {
  EXPECT_FALSE(has(page({a_}), "GMAC/s"));
  const std::string html = page({a_, b_}, {"--profile", "--kernels", "reference"});
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_EQ(count(html, "GMAC/s"), 2u);
  EXPECT_EQ(count(html, "of roof"), 2u);
  EXPECT_TRUE(has(html, "with reference kernels on one thread"));
  EXPECT_TRUE(has(html, "reference/conv2d_f32"));
}

TEST_F(report, the_same_models_give_the_same_page) { EXPECT_EQ(page({a_, b_}), page({a_, b_})); }

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
  page.heading(1, hostile);
  page.paragraph(hostile);
  page.list({hostile});
  page.table({hostile}, {{hostile}});
  page.open_details(hostile);
  page.figure(bar_plot({{.name = hostile, .value = hostile, .length = 2, .title = hostile}}), hostile);
  page.close_details();
  const std::string html = page.finish();
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_GE(count(html, "&lt;script&gt;"), 8u);
}

// An activation of 8 values per row.
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
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(reaches_out(html), "");
  EXPECT_TRUE(has(html, "<li>&lt;/table&gt; (add): wants float16"));
}

TEST(bar_plot, bars_are_as_long_as_they_say) {
  const std::string svg = bar_plot({{"a", "1", 0.5, ""}, {"b", "2", 1, ""}, {"c", "3", -1, ""}, {"d", "4", 7, ""}});
  EXPECT_EQ(count(svg, "class=\"bar-box\""), 4u);
  EXPECT_EQ(count(svg, "width=\"560\""), 4u + 2u);  // backgrounds, and the two full bars
  EXPECT_TRUE(has(svg, "width=\"280\""));
  EXPECT_TRUE(has(svg, "width=\"0\""));
}

}  // namespace
}  // namespace nacre::tools
