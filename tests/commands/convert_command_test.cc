// Runs nacre convert as a program: tests its outputs and its refusals.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tests/commands/convert_digits.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

using namespace convert_digits;

using Json = nacre::tools::Json;

// Expects this exit code, an empty standard output, and a message on standard error that begins with "nacre: " and
// contains `part`.
void expect_refusal(const ToolRun& run, int exit_code, const std::string& part) {
  EXPECT_EQ(run.exit_code, exit_code) << run.err;
  EXPECT_EQ(run.err.rfind("nacre: ", 0), 0u) << run.err;
  EXPECT_TRUE(has(run.err, part)) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST(convert, prints_what_the_model_costs) {
  const TemporaryDirectory directory;
  const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "digits.nacre", "--golden", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* part :
       {"layers   21 (10 steps)", "MACs     347,392", "weights  ", "liveness lower bound", "golden   2 pairs"})
    EXPECT_TRUE(has(run.out, part)) << part << " in\n" << run.out;
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run_tool({"check", directory / "digits.nacre"}).exit_code, 0);
}

TEST(convert, patches_that_it_chooses_take_no_more_than_those_of_a_number) {
  const auto bytes = [](const std::string& patches) {
    const TemporaryDirectory directory;
    const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "m.nacre", "--patches", patches, "--json"});
    const Json json = Json::parse(run.out);
    return json["arena_bytes"].get<uint64_t>() + 44 * json["steps"].get<uint64_t>();  // kBoundStepBytes
  };
  const uint64_t chosen = bytes("auto");
  for (const char* number : {"2", "3", "4"}) EXPECT_LE(chosen, bytes(number)) << number;
}

// float8 needs only the largest magnitude of the samples; an int8 range needs two different numbers.
TEST(convert, calibrates_float8_with_samples_that_are_one_number) {
  const TemporaryDirectory directory;
  const std::string samples = directory / "x.npy", model = directory / "m.nacre";
  write_npy(samples, {ElementType::kUint8, {2, 1, 8, 8}, std::vector<uint8_t>(128, 7)});
  const auto convert = [&](const char* policy) {
    return run_tool({"convert", kDigits, "-o", model, "--policy", policy, "--calibrate", samples, "--cast-samples"});
  };
  const ToolRun taken = convert("float8_from_float32");
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(run_tool({"check", model}).exit_code, 0);
  std::filesystem::remove(model);
  expect_refusal(convert("int8/static_from_float32"), 3, "every number is the same");
}

TEST(convert, fits_weights_to_samples) {
  const TemporaryDirectory directory;
  const std::string model = directory / "m.nacre", samples = directory / "x.npy";
  NpyArray images = read_npy(project_path("tools/samples/digits_images.npy"));
  images.dims[0] = 32;
  images.data.resize(32 * 64);
  write_npy(samples, images);
  const auto convert = [&](const std::string& policy, std::vector<std::string> more) {
    std::vector<std::string> words = {"convert", kDigits, "-o", model, "--policy", policy};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  const std::vector<std::string> calibrated = {"--calibrate", samples, "--cast-samples"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), calibrated.begin(), calibrated.end());
    return more;
  };
  for (const char* policy :
       {"gptq/4/32_from_float32", "gptq/2/-1_from_bfloat16", "gptq/8/64_from_mixed_float16",
        "gptq/3/16_from_float64;activation_order=1", "awq/4/32_from_float32", "int4/32_from_float32;weight_fit=awq"}) {
    const ToolRun run = convert(policy, calibrated);
    EXPECT_EQ(run.exit_code, 0) << policy << run.err;
    EXPECT_EQ(run_tool({"check", model}).exit_code, 0) << policy;
    const std::vector<uint8_t> bytes = read_bytes(model);
    EXPECT_EQ(convert(policy, calibrated).exit_code, 0);
    EXPECT_EQ(read_bytes(model), bytes) << policy;
    std::filesystem::remove(model);
    expect_refusal(convert(policy, {}), 2, "give samples with --calibrate FILE");
    expect_refusal(convert(policy, with({"--range-method", "mse"})), 2, "no layer reads ranges");
    expect_refusal(convert(policy, with({"--train", "softmax_cross_entropy"})), 4, "train under float32, and compile");
    expect_refusal(convert(policy, {"--train", "softmax_cross_entropy", "--train-codes"}), 4, "train under float32");
  }
  const ToolRun run = convert("gptq/4/32_from_float32", with({"--verbose"}));
  EXPECT_TRUE(has(run.err, "apply_policy: fc: gptq: squared error of the outputs on the samples")) << run.err;
}

TEST(convert, samples_that_no_policy_reads_are_not_read) {
  const TemporaryDirectory directory;
  const std::string model = directory / "x.nacre", images = project_path("tools/samples/digits_images.npy");
  const std::vector<std::vector<std::string>> policies = {
      {}, {"--policy", "bfloat16"}, {"--policy", "float8_from_float32", "--train", "softmax_cross_entropy"}};
  for (const std::vector<std::string>& policy : policies) {
    std::vector<std::string> words = {"convert", kDigits, "-o", model, "--calibrate", images, "--cast-samples"};
    words.insert(words.end(), policy.begin(), policy.end());
    const ToolRun run = run_tool(words);
    EXPECT_TRUE(run.exit_code == 0 && has(run.err, "--calibrate: no layer has a policy that reads")) << run.err;
  }
}

TEST(convert, refuses_an_arena_limit_that_a_training_cannot_meet) {
  const TemporaryDirectory directory;
  for (const auto& [limit, met] : {std::pair("1M", true), std::pair("16K", false)}) {
    const std::string model = directory / (std::string(limit) + ".nacre");
    const ToolRun run = run_tool(
        {"convert", kDigits, "-o", model, "--train", "softmax_cross_entropy", "--batch", "2", "--arena-limit", limit});
    EXPECT_EQ(run.exit_code == 0, met) << run.err;
    EXPECT_EQ(has(run.err, "16,384 bytes cannot be reached"), !met) << run.err;
    EXPECT_EQ(std::filesystem::exists(model), met);
  }
}

TEST(convert, prints_json_with_the_numbers_of_the_model) {
  const TemporaryDirectory directory;
  const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "digits.nacre", "--json", "--batch", "3"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  const LoadedModel model(directory / "digits.nacre");
  EXPECT_EQ(json["batch"], 3);
  EXPECT_EQ(json["arena_bytes"], model.model().program(0).banks[0]);
  EXPECT_EQ(json["file_bytes"], model.model().bytes().size());
  EXPECT_GE(json["arena_bytes"], json["liveness_bound"]);
  EXPECT_EQ(json["metadata"]["converter_options"], "--batch 3");
  EXPECT_EQ(json["metadata"]["source_sha256"].get<std::string>().size(), 64u);
}

TEST(convert, same_input_and_options_give_the_same_bytes_anywhere) {
  const TemporaryDirectory a, b;
  std::filesystem::copy_file(kDigits, b / "another_name");
  ASSERT_EQ(run_tool({"convert", kDigits, "-o", a / "x.nacre", "--golden", "1"}).exit_code, 0);
  ASSERT_EQ(
      run_tool({"convert", "another_name", "--golden", "1", "-o", "y"}, {.directory = b.path().string()}).exit_code, 0);
  EXPECT_EQ(read_bytes(a / "x.nacre"), read_bytes(b / "y"));
}

TEST(convert, options_that_would_change_nothing_are_refused) {
  const TemporaryDirectory directory;
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--lists", "tf2"}, "--lists: is about a rewrite"},
      {{"--rewrite-level", "UNSAFE_FORCE_ALL"}, "is about a rewrite"},
      {{"--infer-after-allow"}, "is about a rewrite"},
      {{"--preserve", "fc"}, "--preserve: is about a rewrite"},
      {{"--denylist-add", "Add,Mul"}, "--denylist-add: is about a rewrite"},
      {{"--range-method", "mse"}, "--range-method: is about ranges"},
      {{"--range", "fc=mse"}, "--range: is about ranges"},
      {{"--percentile", "99"}, "--percentile: is about ranges"},
      {{"--cast-samples"}, "--cast-samples: is about ranges"},
      {{"--calibrate", "x.npy", "--percentile", "99"}, "--percentile: no range is found by percentiles"},
      {{"--calibrate", "x.npy", "--range-decay", "0.9"}, "--range-decay: no range is found by a moving average"},
      {{"--policy", ""}, "--policy: is empty"},
      {{"--calibrate", ""}, "--calibrate: is empty"},
      {{"--lists", "tf3"}, "'tf3' is not one of tf1, tf2"},
      {{"--lists", "1"}, "'1' is not one of tf1, tf2"},
  };
  for (const auto& [options, why] : cases) {
    std::vector<std::string> arguments = {"convert", kDigits, "-o", directory / "x.nacre"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_refusal(run_tool(arguments), 2, why);
  }
}

TEST(convert, the_model_tells_every_option_of_its_rewrite) {
  const TemporaryDirectory directory;
  const ToolRun run =
      run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--json", "--rewrite", "mixed_float16", "--lists",
                "tf2", "--preserve", "fc", "--denylist-add", "Add", "--inferlist-remove", "Add"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["metadata"]["converter_options"],
            "--rewrite mixed_float16 --lists tf2 --preserve fc --inferlist-remove Add --denylist-add Add");
}

// With --io-types policy the input gets another record, after those of the values that reuse its bytes.
TEST(convert, models_whose_borders_have_the_policy_s_types_can_be_read) {
  const TemporaryDirectory directory;
  for (const std::string policy : {"bfloat16", "float16", "mixed_float16"})
    for (const std::string batch : {"1", "4"}) {
      const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--policy", policy, "--io-types",
                                    "policy", "--batch", batch});
      ASSERT_EQ(run.exit_code, 0) << policy << batch << run.err;
      EXPECT_EQ(run_tool({"check", directory / "x.nacre"}).exit_code, 0);
    }
}

// From the file's int8 codes to the policy's float16 there are two steps at each input and output. Both must
// disappear.
TEST(convert, borders_of_a_quantized_network_take_the_policy_s_types) {
  const std::string network = shared_path("models/mlperf_tiny/kws_ref_model.tflite");
  if (!std::filesystem::exists(network)) GTEST_SKIP() << "NACRE_SHARED has no " << network;
  const TemporaryDirectory directory;
  const ToolRun run =
      run_tool({"convert", network, "-o", directory / "x.nacre", "--policy", "float16", "--io-types", "policy"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const LoadedModel model(directory / "x.nacre");
  const ProgramView program = model.model().program(0);
  EXPECT_EQ(model.model().tensors()[program.inputs[0]].element, ElementType::kFloat16);
  EXPECT_EQ(model.model().tensors()[program.outputs[0]].element, ElementType::kFloat16);
}

TEST(convert, options_change_the_model) {
  const TemporaryDirectory directory;
  const auto converted = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"convert", kDigits, "-o", directory / "x.nacre"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return std::make_unique<LoadedModel>(directory / "x.nacre");
  };
  const auto plain = converted({}), stripped = converted({"--strip-names"}), unfolded = converted({"--no-fold-bn"}),
             keeping = converted({"--keep-inputs"}), nhwc = converted({"--io-layout", "nhwc"}),
             for_m4 = converted({"--target", "arm/m4"}), banks = converted({"--bank", "tcm=4K,sram=64K"});
  EXPECT_LT(stripped->model().bytes().size(), plain->model().bytes().size());
  EXPECT_EQ(stripped->tensor_name(0), "tensor0");
  EXPECT_GT(unfolded->model().steps().size(), plain->model().steps().size());
  EXPECT_GE(keeping->model().program(0).banks[0], plain->model().program(0).banks[0]);
  const TensorRecord& input = nhwc->model().tensors()[nhwc->model().program(0).inputs[0]];
  EXPECT_EQ(input.dims[3], 1);  // [1, 8, 8, 1], in the source [1, 1, 8, 8]
  EXPECT_EQ(for_m4->program_names(0).target, "arm/m4");
  ASSERT_EQ(banks->model().program(0).banks.size(), 2u);
  EXPECT_LE(banks->model().program(0).banks[0], 4096u);
  EXPECT_EQ(banks->program_names(0).banks, (std::vector<std::string>{"tcm", "sram"}));
}

TEST(convert, stop_after_prints_the_graph_and_writes_nothing) {
  const TemporaryDirectory directory;
  expect_refusal(run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--stop-after", "import"}), 2,
                 "--stop-after: prints the graph");
  for (const char* pass : {"import", "simplify", "apply_policy", "fuse", "schedule", "plan_memory"}) {
    const ToolRun run = run_tool({"convert", kDigits, "--stop-after", pass}, {.directory = directory.path().string()});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_TRUE(has(run.out, "conv2d")) << pass;
  }
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(convert, verbose_says_what_passes_did_on_standard_error) {
  const TemporaryDirectory directory;
  const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--verbose"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(has(run.err, "folded bn1")) << run.err;
}

TEST(convert, refuses_what_is_no_network) {
  const TemporaryDirectory directory;
  const std::string model = directory / "x.nacre", file = directory / "file";
  expect_refusal(run_tool({"convert", directory / "missing", "-o", model}), 5, "missing: cannot be opened");
  expect_refusal(run_tool({"convert", directory.path().string(), "-o", model}), 5, "is a directory");
  write_bytes(file, {});
  expect_refusal(run_tool({"convert", file, "-o", model}), 3, "is empty");
  write_bytes(file, {'h', 'e', 'l', 'l', 'o'});
  expect_refusal(run_tool({"convert", file, "-o", model}), 3, "neither a TFLite nor an ONNX nor a Keras file");
  write_bytes(file, {'N', 'A', 'C', 'R', 0, 0, 0, 0});
  expect_refusal(run_tool({"convert", file, "-o", model}), 3, "is a model file already");
  write_bytes(file, {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'});
  expect_refusal(run_tool({"convert", file, "-o", model}), 3, "libhdf5 does not open it");
  write_bytes(file, {'P', 'K', 3, 4, 0, 0});
  expect_refusal(run_tool({"convert", file, "-o", model}), 3, "contradicts its members");
  std::vector<uint8_t> cut = read_bytes(kDigits);
  cut.resize(cut.size() / 2);
  write_bytes(file, cut);
  expect_refusal(run_tool({"convert", file, "-o", model}), 3, "file");
  EXPECT_FALSE(std::filesystem::exists(model));
}

TEST(convert, tells_formats_by_content_not_by_extension) {
  const TemporaryDirectory directory;
  std::filesystem::copy_file(kDigits, directory / "digits.tflite");
  EXPECT_EQ(run_tool({"convert", directory / "digits.tflite", "-o", directory / "x.nacre"}).exit_code, 0);
}

TEST(convert, leaves_nothing_where_the_model_cannot_be_written) {
  const TemporaryDirectory directory;
  expect_refusal(run_tool({"convert", kDigits, "-o", "/dev/full"}), 5, "No space left");
  expect_refusal(run_tool({"convert", kDigits, "-o", directory / "no/such/x.nacre"}), 5, "No such file or directory");
  expect_refusal(run_tool({"convert", kDigits, "-o", directory.path().string()}), 5, "directory");
  expect_refusal(run_tool({"convert", kDigits, "-o", directory / "x.nacre"}, {.file_limit_bytes = 4096}), 5, "x.nacre");
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(convert, whose_policies_cannot_be_written_has_its_model) {
  const TemporaryDirectory directory;
  expect_refusal(
      run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--emit-policy", directory / "none/p.json"}), 5,
      "none/p.json");
  EXPECT_EQ(directory.entries(), 0u);
  const ToolRun full = run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--emit-policy", "/dev/full"});
  EXPECT_EQ(full.exit_code, 5);
  EXPECT_TRUE(has(full.err, "/dev/full") && has(full.err, "x.nacre is written")) << full.err;
  EXPECT_TRUE(has(full.out, "arena")) << full.out;
  EXPECT_EQ(directory.entries(), 1u);
  EXPECT_EQ(
      run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--emit-policy", directory / "p.json"}).exit_code, 0);
  EXPECT_EQ(directory.entries(), 2u);
}

TEST(convert, a_folder_that_is_not_there_is_refused_before_the_network_is_read) {
  const TemporaryDirectory directory;
  write_bytes(directory / "broken.onnx", {1, 2, 3});
  for (const std::string option : {"--emit-policy", "--output"})
    for (const std::string form : {"", "keras="}) {
      if (option == "--output" && !form.empty()) continue;
      expect_refusal(run_tool({"convert", directory / "broken.onnx", option, form + (directory / "none/p.json")}), 5,
                     "none/p.json: no file can be made in its directory: No such file or directory");
    }
  expect_refusal(run_tool({"convert", directory / "broken.onnx", "--emit-policy", directory / "broken.onnx/p.json"}), 5,
                 "Not a directory");
  EXPECT_EQ(directory.entries(), 1u);
}

// Keras's JSON form of the policies, read back, must make the same model.
TEST(convert, writes_policies_in_the_json_of_keras) {
  const TemporaryDirectory directory;
  const std::string first = directory / "a.nacre", again = directory / "b.nacre", json = directory / "p.json";
  const std::vector<std::string> wish = {"--policy", "mixed_bfloat16", "--set", "fc=int8_from_float32"};
  std::vector<std::string> line = {"convert", kDigits, "-o", first, "--emit-policy", "keras=" + json};
  line.insert(line.end(), wish.begin(), wish.end());
  ASSERT_EQ(run_tool(line).exit_code, 0);
  const std::vector<uint8_t> bytes = read_bytes(json);
  const Json written = Json::parse(bytes);
  EXPECT_EQ(written["class_name"], Json("DTypePolicyMap"));
  EXPECT_EQ(written["config"]["policy_map"]["fc"]["config"]["mode"], Json("int8"));
  ASSERT_EQ(run_tool({"convert", kDigits, "-o", again, "--policy-file", json}).exit_code, 0);
  const LoadedModel a(first), b(again);
  ASSERT_EQ(a.layer_count(), b.layer_count());
  for (uint32_t i = 0; i < a.layer_count(); ++i)
    EXPECT_EQ(policy_text(a.layer(i).policy), policy_text(b.layer(i).policy)) << a.layer(i).name;
  EXPECT_EQ(a.model().steps().size(), b.model().steps().size());
}

TEST(convert, refuses_policies_that_keras_has_no_words_for) {
  const TemporaryDirectory directory;
  expect_refusal(run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--set", "fc=int8/weights_from_float32",
                           "--emit-policy", "keras=" + (directory / "p.json")}),
                 4, "layer 'fc': 'int8/weights_from_float32' is no policy of Keras's");
  EXPECT_EQ(directory.entries(), 0u);
  for (const std::string bare : {"keras", "keras="})
    expect_refusal(run_tool({"convert", kDigits, "--emit-policy", bare}), 2, "write --emit-policy keras=FILE");
  // The file name is what follows "keras=".
  expect_refusal(run_tool({"convert", kDigits, "-o", directory / "x", "--emit-policy", "keras=" + (directory / "x")}),
                 2, "would be overwritten");
}

TEST(convert, a_refused_conversion_leaves_the_model_that_was_there) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x.nacre", {1, 2, 3});
  expect_refusal(run_tool({"convert", kDigits, "-o", directory / "x.nacre"}, {.file_limit_bytes = 4096}), 5, "x.nacre");
  EXPECT_EQ(read_bytes(directory / "x.nacre"), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(convert, does_not_overwrite_its_network) {
  const TemporaryDirectory directory;
  std::filesystem::copy_file(kDigits, directory / "net");
  expect_refusal(run_tool({"convert", directory / "net", "-o", directory / "net"}), 2, "is what NETWORK names");
  EXPECT_EQ(read_bytes(directory / "net"), read_bytes(kDigits));
}

TEST(convert, refuses_wrong_options_before_it_works) {
  const struct {
    std::vector<std::string> options;
    const char* part;
  } cases[] = {{{"--bank", "=1K"}, "a bank has no name"},
               {{"--bank", "tcm=12Q"}, "not a size"},
               {{"--bank", "tcm=0"}, "not a size"},
               {{"--bank", "tcm=99999999999999999999"}, "not a size"},
               {{"--bank", "a=1K,a=2K"}, "given twice"},
               {{"--bank", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"}, "more than 8 banks"},
               {{"--batch", "0"}, "--batch"},
               {{"--batch", "x"}, "--batch"},
               {{"--golden", "-1"}, "--golden"},
               {{"--rounding", "up"}, "--rounding"},
               {{"--target", "z80"}, "--target"},
               {{"--stop-after", "nothing"}, "--stop-after"},
               {{"--dump", "--json"}, "--json: cannot go with --dump"},
               {{"--frobnicate"}, "--frobnicate"}};
  for (const auto& c : cases) {
    const TemporaryDirectory directory;
    std::vector<std::string> arguments = {"convert", kDigits, "-o", directory / "x.nacre"};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    expect_refusal(run_tool(arguments), 2, c.part);
    EXPECT_EQ(directory.entries(), 0u) << c.part;
  }
  expect_refusal(run_tool({"convert", kDigits}), 2, "no model file was named");
}

TEST(convert, says_which_bank_is_too_small) {
  const TemporaryDirectory directory;
  const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--bank", "tcm=1K,sram=2K"});
  expect_refusal(run, 3, "sram");
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(convert, shows_the_graph_after_its_calibration) {
  const ToolRun run = run_tool({"convert", project_path("tools/samples/digits.onnx"), "--stop-after", "calibrate",
                                "--policy", "int8/static_from_float32", "--calibrate",
                                project_path("tools/samples/digits_images.npy"), "--cast-samples"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

}  // namespace
}  // namespace nacre::tools
