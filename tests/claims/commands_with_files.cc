#include "tests/claims/commands_with_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "tests/importers/onnx_builder.h"
#include "tools/evaluate/sample_data.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

namespace fs = std::filesystem;
using namespace nacre::tools;

constexpr int64_t kRows = 32;
const std::string kLoss = "softmax_cross_entropy", kStatic = "int8/static_from_float32";

void nacre(const Words& words) {
  const ToolRun run = run_tool(words);
  if (run.exit_code != 0) throw std::runtime_error("nacre " + words[0] + ": " + run.err);
}

NpyArray floats_of(const NpyArray& bytes) {
  const std::vector<float> x(bytes.data.begin(), bytes.data.end());
  NpyArray array = {ElementType::kFloat32, bytes.dims, std::vector<uint8_t>(x.size() * sizeof(float))};
  std::memcpy(array.data.data(), x.data(), array.data.size());
  return array;
}

NpyArray rows_of(const NpyArray& array, int64_t count) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < count; ++row) rows.push_back(row);
  return select_rows(array, rows, "");
}

NpyArray numbers(const std::vector<int32_t>& values) {
  NpyArray array = {
      ElementType::kInt32, {int64_t(values.size())}, std::vector<uint8_t>(values.size() * sizeof(int32_t))};
  std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

// Returns the name of the file that a command writes into this option's folder; "" if the option names a file.
std::string written_name(const std::string& command, const std::string& output) {
  if (command == "run") return output == "--output" ? "probabilities.npy" : "input_pixels.npy";
  if (command == "firmware") return "model.h";
  return command == "tune" && output == "--checkpoint" ? "slot0.checkpoint" : "";
}

}  // namespace

CommandsWithFiles::CommandsWithFiles() {
  fs::current_path(work_.path());
  for (const char* folder : {"inputs/samples", "aims", "out"}) fs::create_directories(folder);
  make_arrays();
  make_models();
  add_examples();
  add_idle_lines();
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(work_.path() / "inputs"))
    if (entry.is_regular_file()) before_[entry.path().string()] = read_bytes(entry.path().string());
}

void CommandsWithFiles::make_arrays() {
  const std::string samples = project_path("tools/samples/");
  fs::copy_file(samples + "digits.onnx", file("digits.onnx"));
  const NpyArray images = floats_of(rows_of(read_npy(samples + "digits_images.npy"), kRows));
  write_npy(file("images.npy"), images);
  write_npy(file("samples/pixels.npy"), images);
  write_npy(file("probabilities.npy"), rows_of(images, 1));  // named like an output of the network
  OnnxBuilder rows;                                          // a network for one row of 8 pixels
  rows.input("x", {1, 8});
  rows.node("Relu", {"x"}, {"y"});
  rows.output("y");
  write_bytes(file("rows.onnx"), rows.finish());
  write_npy(file("labels.npy"), rows_of(read_npy(samples + "digits_labels.npy"), kRows));
  write_npy(file("rows.npy"), numbers({1, 2, 3, 5, 8, 13, 21, 30}));
  const std::string policy = R"({"default": "float32"})", coded = R"({"default": "int8/static_from_float32"})";
  write_bytes(file("policy.json"), {policy.begin(), policy.end()});
  write_bytes(file("static.json"), {coded.begin(), coded.end()});
  const std::string classes = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  write_bytes(file("classes.txt"), {classes.begin(), classes.end()});
}

void CommandsWithFiles::make_models() {
  const std::string net = file("digits.onnx"), train = file("train.nacre");
  const Words data = {"--data",         file("images.npy"), "--labels", file("labels.npy"), "--validate",
                      file("rows.npy"), "--epochs",         "1",        "--batch",          "8"};
  nacre({"convert", net, "-o", file("a.nacre")});
  nacre({"convert", net, "-o", file("b.nacre"), "--policy", "float16"});
  nacre({"convert", net, "-o", train, "--train", kLoss, "--train-last", "1", "--batch", "8"});
  Words of_model = {"tune", train, "--checkpoint", file("trained")};
  of_model.insert(of_model.end(), data.begin(), data.end());
  nacre(of_model);
  Words of_network = {"tune", net, "--loss", kLoss, "--train-last", "1", "--checkpoint", file("before")};
  of_network.insert(of_network.end(), data.begin(), data.end());
  nacre(of_network);
}

void CommandsWithFiles::add_examples() {
  const std::string net = file("digits.onnx"), a = file("a.nacre"), b = file("b.nacre"), x = file("images.npy"),
                    y = file("labels.npy");
  const Example set = {{"--data", {x}}, {"--labels", {y}}, {"--indices", {file("rows.npy")}}};
  const auto with_set = [&](Example inputs) {
    inputs.insert(set.begin(), set.end());
    return inputs;
  };
  for (const char* command : {"inspect", "size", "check", "kernels", "bench"})
    examples_[command] = {{{"MODEL", {a}}}, {}, {}};
  examples_["firmware"] = {{{"MODEL", {a}}}, {}, {"--output"}};
  examples_["policies"] = {};
  examples_["doctor"] = {};
  examples_["completions"] = {{}, {"bash"}, {}};
  examples_["man"] = {{}, {}, {"--output"}};
  examples_["convert"] = {{{"NETWORK", {net}},
                           {"--policy-file", {file("static.json")}},
                           {"--calibrate", {file("samples")}},
                           {"--labels", {file("classes.txt")}},
                           {"--front-end", {file("rows.onnx")}}},
                          {"--hop", "4"},
                          {"--output"}};
  examples_["run"] = {{{"MODEL", {a}}, {"--input", {"pixels=" + file("probabilities.npy")}}}, {}, {}};
  examples_["compare"] = {{{"A", {a}}, {"B", {b}}, {"--data", {x}}, {"--indices", {file("rows.npy")}}}, {}, {}};
  examples_["eval"] = {with_set({{"MODEL", {a, b}}}), {}, {}};
  examples_["report"] = {with_set({{"MODEL", {net}}, {"--calibrate", {file("samples")}}}),
                         {"--policies", "float32," + kStatic},
                         {"--output"}};
  examples_["search"] = {with_set({{"NETWORK", {net}}, {"--calibrate", {file("samples")}}}),
                         {"--policies", "float32," + kStatic, "--max-drop", "1", "--budget", "2"},
                         {}};
  examples_["tune"] = {{{"MODEL", {net}},
                        {"--data", {x}},
                        {"--labels", {y}},
                        {"--validate", {file("rows.npy")}},
                        {"--policy-file", {file("policy.json")}},
                        {"--start-from", {file("before")}}},
                       {"--loss", kLoss, "--train-last", "1", "--epochs", "1", "--batch", "8"},
                       {"--output"}};
  examples_["export"] = {{{"MODEL", {file("train.nacre")}},
                          {"--checkpoint", {file("trained")}},
                          {"--network", {net}},
                          {"--policy-file", {file("static.json")}},
                          {"--calibrate", {file("samples")}}},
                         {},
                         {"--output"}};
}

void CommandsWithFiles::add_idle_lines() {
  const std::string net = file("digits.onnx"), model = file("a.nacre"), x = file("images.npy"), y = file("labels.npy");
  const auto add = [&](const std::string& option, const Words& words) { idle_.push_back({words, option}); };
  const auto convert = [&](const std::string& option, const Words& words) {
    Words line = {"convert", net, "--output", fresh()};
    line.insert(line.end(), words.begin(), words.end());
    add(option, line);
  };
  convert("--range-method", {"--calibrate", x, "--policy", "float8_from_float32", "--range-method", "mse"});
  convert("--rewrite", {"--rewrite", "mixed_float16", "--policy-file", file("policy.json")});
  convert("--train-last 99", {"--train", kLoss, "--train-last", "99"});
  convert("--learned-ranges", {"--train", kLoss, "--learned-ranges"});
  convert("--learned-ranges",
          {"--train", kLoss, "--learned-ranges", "--train-codes", "--policy", kStatic, "--calibrate", x});
  convert("--range-momentum", {"--train", kLoss, "--range-momentum", "0.5"});
  convert("--freeze-ranges", {"--train", kLoss, "--freeze-ranges", "10"});
  convert("--train-share", {"--train", kLoss, "--train-share", "dynamic=0.5"});
  convert("--loss-scale-rule", {"--train", kLoss, "--loss-scale-rule", "tf"});
  convert("--seed", {"--train", kLoss, "--seed", "2"});
  for (const char* option : {"--freeze-batch-norm", "--unbiased-variance"})
    convert(option, {"--train", kLoss, "--train-last", "1", option});
  convert("--batch-norm-momentum", {"--train", kLoss, "--freeze-batch-norm", "--batch-norm-momentum", "0.5"});
  convert("--moments", {"--train", kLoss, "--optimizer", "sgd", "--moments", "bfloat16"});
  convert("--no-decay", {"--train", kLoss, "--no-decay", "fc"});
  convert("--preserve", {"--rewrite", "mixed_float16", "--preserve", "nobody"});
  add("--target foo", {"inspect", model, "--svg", fresh(), "--target", "foo"});
  add("--target foo", {"inspect", model, "--target", "foo"});
  add("--target foo", {"compare", model, model, "--data", x, "--target", "foo"});
  add("--target foo", {"eval", model, "--data", x, "--labels", y, "--target", "foo"});
  add("--target foo", {"report", model, "--output", fresh(), "--target", "foo"});
  add("--resize", {"run", model, "--input", x, "--resize"});
  add("--seed", {"run", model, "--input", x, "--seed", "1"});
  add("--dequantize-outputs", {"run", model, "--seed", "1", "--dequantize-outputs"});
  for (const Words& option : {Words{"--optimizer", "adam"},
                              {"--train-last", "1"},
                              {"--train-share", "dynamic=0.5"},
                              {"--lora", "2"},
                              {"--clip-norm", "1"},
                              {"--seed", "2"},
                              {"--arena-limit", "1M"},
                              {"--learned-ranges"},
                              {"--range-momentum", "0.5"},
                              {"--freeze-ranges", "10"},
                              {"--loss-scale", "none"},
                              {"--freeze-batch-norm"}})
    convert(option[0] + ": is about a model that trains", option);
  convert("--policy: cannot go with --rewrite", {"--rewrite", "mixed_float16", "--policy", "float32"});
  convert("--stop-after: ", {"--stop-after", "fuse"});
  for (const std::string& network : {net, file("train.nacre")}) {
    Words line = {"tune", network, "--data", x, "--labels", y, "--output", fresh(), "--no-shuffle", "--seed", "2"};
    if (network == net) line.insert(line.end(), {"--loss", kLoss});
    add("--seed", line);
  }
  add("--train-last 99",
      {"tune", net, "--loss", kLoss, "--data", x, "--labels", y, "--output", fresh(), "--train-last", "99"});
}

Words CommandsWithFiles::line(const std::string& command, const Outputs& outputs) {
  const Command& example = examples_.at(command);
  Words words = {command};
  for (const auto& [option, values] : example.inputs) {
    if (option.starts_with("--")) continue;
    words.insert(words.end(), values.begin(), values.end());
  }
  for (const auto& [option, values] : example.inputs)
    for (const std::string& value : values)
      if (option.starts_with("--")) words.insert(words.end(), {option, value});
  words.insert(words.end(), example.words.begin(), example.words.end());
  for (const std::string& option : example.must_write)
    if (std::ranges::find(outputs, option, &Outputs::value_type::first) == outputs.end())
      words.insert(words.end(), {option, fresh()});
  for (const auto& [option, value] : outputs) words.insert(words.end(), {option, value});
  return words;
}

Words CommandsWithFiles::least_line(const std::string& command, const std::set<std::string>& without) {
  const std::string net = file("digits.onnx"), model = file("a.nacre"), x = file("images.npy"), y = file("labels.npy");
  if (command == "convert" && without.contains("--stop-after")) return {"convert", net, "--emit-policy", fresh()};
  if (command == "convert" && without.contains("--output")) return {"convert", net, "--stop-after", "plan_memory"};
  const std::map<std::string, Words> lines = {
      {"convert", {"convert", net, "--output", fresh()}},
      {"run", {"run", model, "--seed", "1"}},
      {"compare", {"compare", model, model, "--data", x}},
      {"eval", {"eval", model, "--data", x, "--labels", y}},
      {"report", {"report", model, "--output", fresh()}},
      {"search", {"search", net, "--data", x, "--labels", y}},
      {"tune", {"tune", net, "--loss", kLoss, "--data", x, "--labels", y, "--output", fresh()}},
      {"export", {"export", file("train.nacre"), "--checkpoint", file("trained"), "--output", fresh()}}};
  const auto found = lines.find(command);
  return found != lines.end() ? found->second : Words{command, model};
}

Words CommandsWithFiles::line_without_condition(const std::string& command, const std::string& option,
                                                const std::string& fact) {
  const std::string net = file("digits.onnx"), model = file("a.nacre"), x = file("images.npy"), y = file("labels.npy");
  if (fact.starts_with("acts in the pass")) return {"convert", net, "--stop-after", "import"};
  if (fact.find("training model") != std::string::npos)
    return {"tune", file("train.nacre"), "--data", x, "--labels", y, "--output", fresh()};
  if (fact.find("this is a network's file") != std::string::npos) return {"inspect", net};
  if (fact.find("about a network, and this is a model") != std::string::npos)
    return {"report", model, "--output", fresh()};
  if (fact.find("network's import") != std::string::npos) return {"inspect", model};
  if (fact == "is of a program for whatever machine runs it")
    return {"convert", net, "--output", fresh(), "--target", "arm/m4"};
  const std::map<std::string, Words> lines = {
      {"convert --infer-after-allow", {"convert", net, "--output", fresh(), "--rewrite", "mixed_bfloat16"}},
      {"convert --pad-features", {"convert", net, "--output", fresh()}},
      {"convert --percentile", {"convert", net, "--output", fresh(), "--calibrate", x, "--policy", kStatic}},
      {"convert --range-decay", {"convert", net, "--output", fresh(), "--calibrate", x, "--policy", kStatic}},
      {"tune --infer-after-allow",
       {"tune", net, "--loss", "softmax_cross_entropy", "--data", x, "--labels", y, "--output", fresh(), "--rewrite",
        "mixed_bfloat16"}},
      {"compare --json", {"compare", model, model, "--data", x, "--csv", "-"}},
      {"eval --max-drop", {"eval", model, "--data", x, "--labels", y}}};
  const auto found = lines.find(command + " " + option);
  return found != lines.end() ? found->second : Words{};
}

std::vector<std::string> CommandsWithFiles::inputs_of(const std::string& command) const {
  std::vector<std::string> files;
  for (const auto& [option, values] : examples_.at(command).inputs)
    for (const std::string& value : values) {
      const std::string path = value.substr(option == "--input" ? value.find('=') + 1 : 0);
      if (!fs::is_directory(path)) files.push_back(path);
      else
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
          if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  return files;
}

bool CommandsWithFiles::unchanged() const {
  return std::ranges::all_of(before_, [](const auto& each) {
    return fs::is_regular_file(each.first) && read_bytes(each.first) == each.second;
  });
}

std::vector<std::string> CommandsWithFiles::spellings(const std::string& path) {
  const fs::path folder = work_.path() / "aims" / std::to_string(made_++), inner = fs::path(path).parent_path();
  fs::create_directories(folder);
  fs::create_symlink(path, folder / "link");
  fs::create_hard_link(path, folder / "hard");
  const std::string dotted = (inner / ".." / inner.filename() / fs::path(path).filename()).string();
  return {path, dotted, (folder / "link").string(), (folder / "hard").string()};
}

std::string CommandsWithFiles::aim(const std::string& command, const std::string& output, const std::string& path) {
  const std::string name = written_name(command, output);
  if (name.empty()) return path;
  if (fs::path(path).filename() == name) return fs::path(path).parent_path().string();
  const fs::path folder = work_.path() / "aims" / std::to_string(made_++);
  fs::create_directories(folder);
  if (fs::is_symlink(path)) fs::create_symlink(fs::read_symlink(path), folder / name);
  else fs::create_hard_link(path, folder / name);
  return folder.string();
}

std::string CommandsWithFiles::same_file(const std::string& command, const std::string& output,
                                         const std::string& other, const std::string& value) {
  if (command != "tune") return value;
  if (other == "--checkpoint") return fs::path(value).parent_path().string();
  return output == "--checkpoint" ? value + "/slot0.checkpoint" : value;
}

std::string CommandsWithFiles::fresh() {
  const fs::path folder = work_.path() / "out" / std::to_string(made_++);
  fs::create_directories(folder);
  return (folder / "slot0.checkpoint").string();
}

}  // namespace nacre::test
