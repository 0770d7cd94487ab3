// Tests nacre convert --place and --tune: the device or library (place) that the file names for each step, the kernels
// that run there, and refusals. XNNPACK may be built in or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/commands/convert_digits.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"
#include "tools/base/json.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

using namespace convert_digits;

bool is_built_in() {
  const std::vector<std::string> choices = kernel_choices();
  return std::ranges::find(choices, "xnnpack") != choices.end();
}

struct Converted {
  const TemporaryDirectory& directory;

  std::string operator()(const std::string& name, std::vector<std::string> options) const {
    const std::string model = directory / name;
    options.insert(options.begin(), {"convert", kDigits, "-o", model});
    const ToolRun run = run_tool(options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return model;
  }
};

std::vector<uint8_t> places_of(const std::string& path) {
  const LoadedModel model(path);
  std::vector<uint8_t> places;
  for (const StepRecord& step : model.model().steps()) places.push_back(step.place);
  return places;
}

std::string option_of(const std::string& path) {
  for (const auto& [key, value] : LoadedModel(path).metadata())
    if (key == "converter_options") return value;
  return "";
}

// Returns the steps that `kernels` says XNNPACK runs.
std::vector<size_t> on_xnnpack(const Json& steps) {
  std::vector<size_t> found;
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i]["kernel"].get<std::string>().starts_with("xnnpack/")) found.push_back(i);
  return found;
}

TEST(convert_places, stand_in_the_file) {
  const TemporaryDirectory directory;
  const Converted converted{directory};
  const std::string plain = converted("a", {}), placed = converted("b", {"--place", "xnnpack=1,3-5"});
  EXPECT_EQ(places_of(plain), std::vector<uint8_t>(10, 0));
  EXPECT_EQ(places_of(placed), (std::vector<uint8_t>{0, 1, 0, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(option_of(placed), "--place xnnpack=1,3-5");
  EXPECT_EQ(read_bytes(converted("c", {"--place", "xnnpack=5,3,4,1,3-4"})), read_bytes(placed)) << "the same steps";
  EXPECT_EQ(run_tool({"check", placed}).exit_code, 0);
}

TEST(convert_places, name_the_kernels_that_run) {
  const TemporaryDirectory directory;
  const std::string model = Converted{directory}("m", {"--place", "xnnpack=0-9", "--golden", "1"});
  const auto profiled = [&](const std::string& kernels) {
    const ToolRun run = run_tool({"run", model, "--seed", "1", "--profile", "--json", "--kernels", kernels});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out);
  };
  const Json run = profiled("auto");
  const Json inspected = Json::parse(run_tool({"inspect", model, "--json"}).out);
  const Json& steps = inspected["programs"][0]["steps"];
  const std::string best = name_of_port(port_named("auto"));
  // XNNPACK takes seven of the digits network's ten steps: products and pools. It takes no product with a residual
  // and no softmax.
  const std::vector<size_t> taken = {1, 2, 3, 4, 5, 7, 8},
                            expected = xnnpack_port() != nullptr ? taken : std::vector<size_t>();
  EXPECT_EQ(on_xnnpack(run["profile"]["steps"]), expected);
  EXPECT_EQ(on_xnnpack(steps), expected) << "what inspect says is what runs";
  EXPECT_EQ(run["kernels"], xnnpack_port() != nullptr ? best + "+xnnpack" : best);
  for (const size_t i : {size_t{0}, size_t{6}, size_t{9}})
    EXPECT_TRUE(steps[i]["kernel"].get<std::string>().starts_with(best + "/")) << "not left to the reference";
  for (const std::string kernels : {"reference", best.c_str()})
    EXPECT_TRUE(on_xnnpack(profiled(kernels)["profile"]["steps"]).empty()) << "a set that is named runs every step";
  const Json other = Json::parse(run_tool({"inspect", model, "--json", "--target", "x86/portable"}).out);
  EXPECT_TRUE(on_xnnpack(other["programs"][0]["steps"]).empty());
  EXPECT_EQ(run_tool({"bench", model, "--runs", "1", "--min-ms", "0", "--warmup-ms", "0"}).exit_code, 0);
}

TEST(convert_places, change_no_result) {
  const TemporaryDirectory directory;
  const Converted converted{directory};
  const std::string samples = project_path("tools/samples/digits_images.npy");
  for (const bool codes : {false, true}) {
    std::vector<std::string> options;
    if (codes)
      options = {"--policy",  "int8/static_from_float32", "--calibrate", samples, "--cast-samples", "--rounding",
                 "float_even"};
    std::vector<std::string> all = options;
    all.insert(all.end(), {"--place", "xnnpack=0-9"});
    const LoadedModel plain(converted("plain", options)), placed(converted("placed", all));
    ASSERT_TRUE(names_place(placed.model(), placed.model().program(0), kXnnpackPlace));
    for (const uint32_t threads : {1u, 2u})
      for (uint64_t seed = 1; seed <= uint64_t(nacre::test::generated(20)); ++seed) {
        const std::vector<uint8_t> inputs = seeded_inputs(plain, 0, seed);
        const std::vector<uint8_t> expected =
            BoundProgram(plain, 0, ports_for(plain, 0, "auto"), make_threads(threads)).run(inputs);
        const std::vector<uint8_t> found =
            BoundProgram(placed, 0, ports_for(placed, 0, "auto"), make_threads(threads)).run(inputs);
        const float tolerance = codes ? 0 : kFloatTolerance;
        EXPECT_TRUE(difference(plain, 0, expected, found).within(tolerance)) << seed;
      }
  }
}

TEST(convert_places, that_make_no_sense_are_refused) {
  const TemporaryDirectory directory;
  const std::string no_list = "is no list of steps", ten = "the program has 10 steps, the first of which is 0";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--place", ""}, "--place: is empty"},
      {{"--place", "1,2"}, "names no port: there is xnnpack"},
      {{"--place", "cuda=1"}, "names no port: there is xnnpack"},
      {{"--place", "xnnpack="}, no_list},
      {{"--place", "xnnpack=1,"}, no_list},
      {{"--place", "xnnpack=,1"}, no_list},
      {{"--place", "xnnpack=4-3"}, no_list},
      {{"--place", "xnnpack=-1"}, no_list},
      {{"--place", "xnnpack=1-"}, no_list},
      {{"--place", "xnnpack=1 2"}, no_list},
      {{"--place", "xnnpack=conv1"}, no_list},
      {{"--place", "xnnpack=99999999999999999999"}, no_list},
      {{"--place", "xnnpack=10"}, ten},
      {{"--place", "xnnpack=0-18446744073709551615"}, ten},
      {{"--place", "xnnpack=1", "--tune"}, "--tune: finds what --place says"},
      {{"--place", "xnnpack=1", "--target", "x86/avx2"}, "--place: is of a program for whatever machine runs it"},
      {{"--tune", "--target", "arm/m4"}, "--tune: is of a program for whatever machine runs it"},
      {{"--place", "xnnpack=1", "--train", "softmax_cross_entropy"}, "--place: is about a model that only infers"},
      {{"--tune", "--train", "softmax_cross_entropy"}, "--tune: is about a model that only infers"},
      {{"--threads", "2"}, "--threads: is about measuring, and nothing is measured"},
      {{"--tune", "--threads", "0"}, "--threads: '0' is no whole number from 1 to 256"},
  };
  for (const auto& [options, why] : cases) {
    std::vector<std::string> arguments = {"convert", kDigits, "-o", directory / "x.nacre"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(has(run.err, why)) << why << " in\n" << run.err;
    EXPECT_EQ(run.out, "");
  }
  for (const char* option : {"--tune", "--place"}) {
    std::vector<std::string> arguments = {"convert", kDigits, "--dump", option};
    if (option == std::string("--place")) arguments.push_back("xnnpack=1");
    EXPECT_TRUE(has(run_tool(arguments).err, std::string(option) + ": is about the model's file")) << option;
  }
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(convert_places, are_not_measured_without_xnnpack) {
  if (is_built_in()) GTEST_SKIP() << "the refusal is of builds without XNNPACK, and this one has it";
  const TemporaryDirectory directory;
  const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--tune"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_EQ(run.err,
            "nacre: --tune: this nacre is built without XNNPACK: there are only our own kernels\n"
            "    build it with -Dxnnpack=enabled, or leave it out\n");
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(convert_places, that_were_measured_stand_in_the_file_and_are_told) {
  if (xnnpack_port() == nullptr) GTEST_SKIP() << "measures XNNPACK, which needs -Dxnnpack=enabled";
  const TemporaryDirectory directory;
  const Converted converted{directory};
  for (const std::string threads : {"1", "2"}) {
    const std::string model = directory / "tuned";
    const ToolRun run = run_tool({"convert", kDigits, "-o", model, "--tune", "--threads", threads, "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.err, "") << "silent where standard error is no terminal";
    const Json tune = Json::parse(run.out)["tune"];
    EXPECT_GE(tune["rounds"].get<uint64_t>(), 11u);
    ASSERT_EQ(tune["steps"].size(), 10u);
    const std::vector<uint8_t> places = places_of(model);
    size_t faster = 0, moved = 0;
    for (size_t i = 0; i < 10; ++i) {
      const Json& step = tune["steps"][i];
      EXPECT_EQ(step["place"], places[i]);
      EXPECT_GT(step["us"].get<double>(), 0);
      const bool taken = step.contains("xnnpack_kernel");
      if (taken) {
        EXPECT_GT(step["xnnpack_us"].get<double>(), 0);
        EXPECT_LE(step["ratio"]["lower"].get<double>(), step["ratio"]["median"].get<double>());
        EXPECT_LE(step["ratio"]["median"].get<double>(), step["ratio"]["upper"].get<double>());
      }
      EXPECT_EQ(taken, i != 0 && i != 6 && i != 9);
      const bool is_faster = taken && step["ratio"]["upper"].get<double>() < 1;
      EXPECT_TRUE(places[i] == 0 || is_faster);
      faster += is_faster;
      moved += places[i];
    }
    EXPECT_EQ(tune["moved"], moved);
    const bool whole_is_faster = faster > 0 && tune["ratio"]["upper"].get<double>() < 1;
    EXPECT_EQ(moved, whole_is_faster ? faster : 0);
    const std::string place = tune["place"];
    EXPECT_EQ(option_of(model), place.empty() ? "" : "--place " + place);
    std::vector<std::string> options;
    if (!place.empty()) options = {"--place", place};
    EXPECT_EQ(read_bytes(converted("again", options)), read_bytes(model)) << "the same file, without measuring";
  }
  const ToolRun text = run_tool({"convert", kDigits, "-o", directory / "text", "--tune"});
  for (const char* part : {"ratio: quartiles", "XNNPACK", "conv2d_f32", "runs on"})
    EXPECT_TRUE(has(text.out, part)) << part << " in\n" << text.out;
}

TEST(convert_places, are_shown_to_be_measured_and_leave_no_file_when_interrupted) {
  if (xnnpack_port() == nullptr) GTEST_SKIP() << "measures XNNPACK, which needs -Dxnnpack=enabled";
  const TemporaryDirectory directory;
  const ToolRun run = run_tool({"convert", kDigits, "-o", directory / "x.nacre", "--tune"}, {.interrupt = true});
  EXPECT_EQ(run.signal, SIGINT);
  EXPECT_TRUE(has(run.err, "tune")) << run.err;
  EXPECT_EQ(directory.entries(), 0u);
}

}  // namespace
}  // namespace nacre::tools
