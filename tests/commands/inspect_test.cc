// Tests nacre inspect: tables that add up, JSON that is complete, and names that fit the line.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/base/table.h"
#include "tools/evaluate/program_report.h"
#include "tools/model/program_cost.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

class inspect : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(
        run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", digits_, "--golden", "2"}).exit_code, 0);
  }

  Json json(const std::string& model) {
    const ToolRun run = run_tool({"inspect", model, "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out);
  }

  const TemporaryDirectory directory_;
  const std::string digits_ = directory_ / "digits.nacre";
};

TEST_F(inspect, layers_and_steps_add_up_to_the_programs_totals) {
  const LoadedModel model(digits_);
  const Statistics s = statistics(model, 0);
  const Json program = json(digits_)["programs"][0];
  EXPECT_EQ(program["multiply_accumulates"], s.multiply_accumulates);
  const auto sum = [&](const char* what, const char* part) {
    uint64_t total = 0;
    for (const Json& item : program[what]) total += item[part].get<uint64_t>();
    return total;
  };
  EXPECT_EQ(sum("steps", "multiply_accumulates"), s.multiply_accumulates);
  for (const char* part : {"multiply_accumulates", "weight_bytes", "activation_bytes"})
    EXPECT_EQ(sum("layers", part), sum("steps", part)) << part;
  uint64_t weights = 0;  // each constant once
  for (const Json& tensor : program["tensors"])
    weights += tensor["region"] == "weights" ? tensor["bytes"].get<uint64_t>() : 0;
  EXPECT_EQ(weights, sum("steps", "weight_bytes"));
}

// An update whose verdict is no changes no parameter: its steps have a guard, which the text and the JSON name.
TEST_F(inspect, guards_of_a_training_are_named) {
  const std::string model = directory_ / "train.nacre";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, "--train",
                      "softmax_cross_entropy", "--train-last", "1"})
                .exit_code,
            0);
  std::string lines;
  const Json all = json(model);
  for (const Json& program : all["programs"]) {
    std::map<std::string, int> guards;
    int guarded = 0;
    for (const Json& step : program["steps"]) {
      if (step["guard"].is_null()) continue;
      ++guarded;
      for (const Json& tensor : program["tensors"])
        if (tensor["tensor"] == step["guard"]) ++guards[tensor["name"].get<std::string>()];
    }
    EXPECT_EQ(guarded > 0, program["entry"] == "update") << program["entry"];
    if (guarded == 0) continue;
    ASSERT_EQ(guards, (std::map<std::string, int>{{"apply", guarded}}));
    lines += "\nguards  " + std::to_string(guarded) + " of " + std::to_string(program["steps"].size()) +
             " steps have no effect while a number is 0: " + std::to_string(guarded) + " x apply\n";
  }
  const std::string text = run_tool({"inspect", model}).out;
  EXPECT_TRUE(has(text, lines)) << text;
  EXPECT_FALSE(has(run_tool({"inspect", digits_}).out, "guards"));
}

TEST_F(inspect, json_has_every_step_with_named_attributes_and_operands) {
  const LoadedModel model(digits_);
  const Json all = json(digits_), program = all["programs"][0];
  ASSERT_EQ(program["steps"].size(), model.model().steps().size());
  EXPECT_EQ(all["golden"].size(), 2u);
  EXPECT_TRUE(all["metadata"].contains("source_sha256"));
  EXPECT_EQ(program["inputs"][0]["name"], "pixels");
  EXPECT_EQ(program["inputs"][0]["layout"], "NCHW");
  const auto conv = std::ranges::find_if(program["steps"], [](const Json& step) { return step["op"] == "conv2d"; });
  ASSERT_NE(conv, program["steps"].end());
  EXPECT_EQ((*conv)["attributes"]["stride_h"], 1);
  EXPECT_EQ((*conv)["attributes"]["clamp"], 1);
  EXPECT_EQ((*conv)["attributes"]["low"], 0.0);
  EXPECT_EQ((*conv)["operands"][0]["slot"], "x");
  EXPECT_EQ((*conv)["operands"][1]["slot"], "w");
  EXPECT_EQ((*conv)["operands"].back()["role"], "out");
}

TEST_F(inspect, a_file_that_is_damaged_anywhere_has_code_3) {
  const std::vector<uint8_t> whole = read_bytes(digits_);
  const std::string damaged = directory_ / "damaged.nacre";
  for (size_t part = 0; part < 20; ++part) {
    std::vector<uint8_t> bytes = whole;
    bytes[whole.size() * part / 20] ^= 4;
    write_bytes(damaged, bytes);
    const ToolRun run = run_tool({"inspect", damaged});
    EXPECT_EQ(run.exit_code, 3) << part << run.err;
    EXPECT_TRUE(run.out.empty()) << run.out;
    bytes.assign(whole.begin(), whole.begin() + std::ptrdiff_t(whole.size() * part / 20));
    write_bytes(damaged, bytes);
    EXPECT_EQ(run_tool({"inspect", damaged}).exit_code, 3) << part;
  }
}

TEST_F(inspect, json_goes_with_steps_which_it_has_in_any_case) {
  const ToolRun with = run_tool({"inspect", digits_, "--json", "--steps"}),
                without = run_tool({"inspect", digits_, "--json"});
  ASSERT_EQ(with.exit_code, 0) << with.err;
  EXPECT_EQ(with.out, without.out);
  EXPECT_GT(Json::parse(with.out)["programs"][0]["steps"].size(), 3u);
}

TEST_F(inspect, arena_tensors_lie_within_the_arena_for_as_long_as_they_live) {
  const Json program = json(digits_)["programs"][0];
  for (const Json& tensor : program["tensors"]) {
    if (tensor["region"] != "arena") continue;
    EXPECT_LE(tensor["offset"].get<uint64_t>() + tensor["bytes"].get<uint64_t>(),
              program["arena_bytes"].get<uint64_t>());
    EXPECT_LE(tensor["first_step"], tensor["last_step"]);
  }
}

TEST_F(inspect, most_live_bytes_are_the_liveness_bound) {
  const LoadedModel model(digits_);
  const ProgramReport report(model, 0);
  const std::vector<uint64_t> live = report.live_bytes();
  EXPECT_EQ(*std::ranges::max_element(live), report.names().liveness_bound);
}

TEST_F(inspect, text_fits_the_line_and_folded_layers_are_listed) {
  const ToolRun run = run_tool({"inspect", digits_, "--steps"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(has(run.out, "bn1"));
  EXPECT_TRUE(has(run.out, "folded into other layers"));
  EXPECT_TRUE(has(run.out, "3x3, pad 1 1 1 1, relu"));
  EXPECT_TRUE(has(run.out, "golden  2 pairs"));
  for (size_t at = 0; at < run.out.size();) {
    const size_t end = run.out.find('\n', at);
    EXPECT_LE(end - at, 140u) << run.out.substr(at, end - at);
    at = end + 1;
  }
}

TEST_F(inspect, names_the_kernel_of_every_step) {
  const Json here = json(digits_)["programs"][0];
  uint32_t left = 0;
  for (const Json& step : here["steps"]) {
    EXPECT_FALSE(step["kernel"].is_null()) << step["op"];
    left += step["reference"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(here["reference_steps"], left);
  const ToolRun portable = run_tool({"inspect", digits_, "--steps", "--target", "x86/portable"});
  ASSERT_EQ(portable.exit_code, 0) << portable.err;
  EXPECT_TRUE(has(portable.out, "kernel of portable")) << portable.out;
  const ToolRun reference = run_tool({"inspect", digits_, "--steps", "--target", "reference"});
  EXPECT_TRUE(has(reference.out, "kernels reference; ")) << reference.out;
  EXPECT_TRUE(has(reference.out, "steps run on reference kernels: ")) << reference.out;
  const ToolRun unknown = run_tool({"inspect", digits_, "--target", "x86/none"});
  EXPECT_EQ(unknown.exit_code, kUnsupported) << unknown.err;
}

TEST_F(inspect, writes_the_same_picture_twice) {
  ASSERT_EQ(run_tool({"inspect", digits_, "--svg", directory_ / "a.svg"}).exit_code, 0);
  ASSERT_EQ(run_tool({"inspect", digits_, "--json", "--svg", directory_ / "b.svg"}).exit_code, 0);
  EXPECT_EQ(read_bytes(directory_ / "a.svg"), read_bytes(directory_ / "b.svg"));
  EXPECT_EQ(run_tool({"inspect", digits_, "--svg", directory_ / "none/c.svg"}).exit_code, 5);
}

TEST_F(inspect, writes_the_same_page_twice_and_beside_a_picture_both_or_none) {
  const std::string page = directory_ / "page.html", svg = directory_ / "page.svg", again = directory_ / "again.html";
  ASSERT_EQ(run_tool({"inspect", digits_, "--html", page, "--svg", svg}).exit_code, 0);
  ASSERT_EQ(run_tool({"inspect", digits_, "--html", again, "--json"}).exit_code, 0);
  EXPECT_EQ(read_bytes(page), read_bytes(again));
  write_bytes(svg, {'o', 'l', 'd'});
  EXPECT_EQ(run_tool({"inspect", digits_, "--svg", svg, "--html", (directory_ / "none") + "/page.html"}).exit_code, 5);
  EXPECT_EQ(read_bytes(svg), (std::vector<uint8_t>{'o', 'l', 'd'}));
  EXPECT_EQ(run_tool({"inspect", digits_, "--html", digits_}).exit_code, 2);
  EXPECT_EQ(run_tool({"inspect", project_path("tools/samples/digits.onnx"), "--html", page}).exit_code, 2);
}

TEST_F(inspect, stripped_names_and_other_files_are_no_problem) {
  const std::string stripped = directory_ / "stripped.nacre";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", stripped, "--strip-names"}).exit_code,
            0);
  EXPECT_EQ(run_tool({"inspect", stripped, "--steps"}).exit_code, 0);
  const ToolRun network = run_tool({"size", project_path("tools/samples/digits.onnx")});
  EXPECT_EQ(network.exit_code, 3);
  EXPECT_TRUE(has(network.err, "nacre convert")) << network.err;
}

TEST(shorten, keeps_both_ends_and_the_length) {
  const std::string name = "functional_1/activation/Relu;functional_1/conv2d_12/Conv2D1";
  for (size_t most : {5u, 12u, 30u, 58u}) {
    const std::string text = shorten(name, most);
    EXPECT_EQ(characters(text), most);
    EXPECT_TRUE(text.ends_with("1"));
  }
  EXPECT_EQ(shorten(name, 100), name);
  EXPECT_EQ(characters(shorten("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 10)), 10u);
}

TEST(shorten, names_that_differ_in_their_middle_stay_different) {
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i)
    names.push_back("functional_1/block" + std::to_string(i) + "/separable_convolution/depthwise_kernel/BatchNorm");
  names.push_back("short");
  names.push_back(names[3]);
  for (const size_t most : {24u, 32u, 60u}) {
    const std::vector<std::string> shown = shorten_apart(names, most);
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_LE(characters(shown[i]), most);
      for (size_t j = 0; j < i; ++j) EXPECT_EQ(shown[i] == shown[j], names[i] == names[j]) << shown[i];
    }
    EXPECT_EQ(shown[30], "short");
  }
  EXPECT_EQ(shorten_apart(names, 200), names);
}

TEST(table, shortens_the_column_with_the_most_to_give) {
  Table table({{"name", Align::kLeft, 10}, {"number", Align::kRight}});
  table.add({std::string(80, 'n'), "12,345"});
  table.rule();
  table.add({"total", "1"});
  const std::string text = table.text(40);
  EXPECT_EQ(text.substr(0, text.find('\n')), "name" + std::string(28, ' ') + "  number");
  EXPECT_TRUE(has(text, std::string(40, '-')));
  EXPECT_TRUE(has(text, "  12,345\n"));
}

TEST(policy_name, says_what_people_write) {
  EXPECT_EQ(policy_name({}), "float32");
  EXPECT_EQ(policy_name(
                {.compute = ElementType::kFloat16, .output = ElementType::kFloat16, .loss_scale = LossScale::kDynamic}),
            "mixed_float16");
  EXPECT_EQ(policy_name({.quantization = Quantization::kInt8Static}), "int8/static_from_float32");
  EXPECT_EQ(policy_name({.quantization = Quantization::kInt8Weights}), "int8/weights_from_float32");
  EXPECT_EQ(policy_name({.quantization = Quantization::kInt4Weights, .block = 64}), "int4/64_from_float32");
  EXPECT_EQ(
      policy_name(
          {.quantization = Quantization::kFloat8, .amax_history_length = 1024, .update_order = UpdateOrder::kKeras}),
      "float8_from_float32");
}

TEST(policy_name, layers_of_quantized_files_have_names_too) {
  using enum ElementType;
  const Policy codes = {
      .variable = kInt8, .compute = kInt8, .output = kInt8, .quantization = Quantization::kInt8Static};
  EXPECT_EQ(policy_name(codes), "int8/static");
  EXPECT_EQ(policy_name({.variable = kInt8, .compute = kInt8, .quantization = Quantization::kInt8Dynamic}),
            "int8 (dynamic)");
  // Even records that no policy can have get a name.
  EXPECT_NE(policy_name({.quantization = Quantization(200)}), "");
  EXPECT_NE(policy_name({.variable = ElementType(99)}), "");
}

}  // namespace
}  // namespace nacre::tools
