// Tests that the tool does not allocate sizes that a few bytes declare: it keeps its memory budget and refuses in one
// sentence.
#include <gtest/gtest.h>
#include <zip.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"

namespace nacre::tools {
namespace {

// The limit: the budget (tools/base/budget.h), a third of it for unfinished work at a refusal, and the tool itself.
constexpr long kMostKib = (256 + 86 + 64) * 1024;

OnnxBuilder large_input() {
  OnnxBuilder b;
  b.input("x", {int64_t{1} << 28});
  b.node("Relu", {"x"}, {"y"});
  b.output("y");
  return b;
}

// Builds x [1] plus the first element of a constant "big" that `add` makes.
OnnxBuilder with_constant(const std::function<void(OnnxBuilder&)>& add) {
  OnnxBuilder b;
  b.input("x", {1, 1});
  add(b);
  b.integers("first", {1}, {0});
  b.node("Flatten", {"big"}, {"row"}).integer("axis", 0);
  b.node("Gather", {"row", "first"}, {"one"}).integer("axis", 1);
  b.node("Cast", {"one"}, {"real"}).integer("to", 1);
  b.node("Add", {"x", "real"}, {"y"});
  b.output("y");
  return b;
}

void filled(OnnxBuilder& b, const std::string& name, const std::vector<int64_t>& dims) {
  b.integers(name + "_dims", {int64_t(dims.size())}, dims);
  b.node("ConstantOfShape", {name + "_dims"}, {name});
}

struct Case {
  const char* what;
  OnnxBuilder (*make)();
  std::vector<std::string> options;
  const char* said;
};

const Case kCases[] = {
    {"golden pairs of a large input",
     &large_input,
     {"--golden", "1"},
     "1 golden pair would take 2,147,483,648 bytes, the limit is"},
    {"a range",
     [] {
       return with_constant([](OnnxBuilder& b) {
         b.integers("from", {}, {0});
         b.integers("to", {}, {900'000'000});
         b.integers("by", {}, {1});
         b.node("Range", {"from", "to", "by"}, {"big"});
       });
     },
     {},
     "constants computed at import would take 7,200,000,024 bytes, the limit is 268,44"},
    {"one constant joined with itself again and again",
     [] {
       return with_constant([](OnnxBuilder& b) {
         filled(b, "v0", {1, 1 << 20});
         for (int i = 0; i < 10; ++i)
           b.node("Concat", {"v" + std::to_string(i), "v" + std::to_string(i)},
                  {i == 9 ? "big" : "v" + std::to_string(i + 1)})
               .integer("axis", 0);
       });
     },
     {},
     "constants computed at import would take"},
    {"a column and a row added",
     [] {
       return with_constant([](OnnxBuilder& b) {
         filled(b, "column", {1 << 15, 1});
         filled(b, "row_of", {1, 1 << 15});
         b.node("Add", {"column", "row_of"}, {"big"});
       });
     },
     {},
     "constants computed at import would take"},
    {"bytes cast to 8 bytes each, again and again",
     [] {
       return with_constant([](OnnxBuilder& b) {
         filled(b, "v0", {1, 1 << 22});
         for (int i = 0; i < 40; ++i)
           b.node("Cast", {i == 0 ? "v0" : "v" + std::to_string(i)}, {i == 39 ? "big" : "v" + std::to_string(i + 1)})
               .integer("to", i % 2 == 0 ? 7 : 1);
       });
     },
     {},
     "constants computed at import would take"},
    {"slices of one constant",
     [] {
       return with_constant([](OnnxBuilder& b) {
         filled(b, "v0", {1, 1 << 22});
         b.integers("from", {1}, {0});
         for (int i = 0; i < 40; ++i) {
           b.integers("to" + std::to_string(i), {1}, {(1 << 22) - 1 - i});
           b.integers("along" + std::to_string(i), {1}, {1});
           b.node(
               "Slice",
               {i == 0 ? "v0" : "v" + std::to_string(i), "from", "to" + std::to_string(i), "along" + std::to_string(i)},
               {i == 39 ? "big" : "v" + std::to_string(i + 1)});
         }
       });
     },
     {},
     "constants computed at import would take"},
    {"a transposed constant",
     [] {
       return with_constant([](OnnxBuilder& b) {
         filled(b, "v0", {2, 1 << 22});
         for (int i = 0; i < 40; ++i)
           b.node("Transpose", {i == 0 ? "v0" : "v" + std::to_string(i)},
                  {i == 39 ? "big" : "v" + std::to_string(i + 1)})
               .ints("perm", {1, 0});
       });
     },
     {},
     "constants computed at import would take"},
};

TEST(declared_sizes, are_asked_for_before_anything_is_made) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const TemporaryDirectory folder;
    write_bytes(folder / "n.onnx", c.make().finish());
    std::vector<std::string> arguments = {"convert", folder / "n.onnx", "-o", folder / "m.nacre"};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 4) << run.err;
    EXPECT_NE(run.err.find(c.said), std::string::npos) << run.err;
    EXPECT_EQ(folder.entries(), 1u);
    if (!nacre::test::sanitized()) {
      EXPECT_LT(run.peak_kib, kMostKib);
    }
  }
}

// A model of a few bytes has an input of 1 GiB. Writing and checking it needs no such memory; only runs do.
TEST(declared_sizes, of_a_model_take_memory_when_it_runs_and_not_before) {
  const TemporaryDirectory folder;
  const std::string model = folder / "m.nacre";
  write_bytes(folder / "n.onnx", large_input().finish());
  const std::vector<std::string> commands[] = {
      {"convert", folder / "n.onnx", "-o", model}, {"check", model}, {"inspect", model}, {"size", model}};
  for (const auto& arguments : commands) {
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    if (!nacre::test::sanitized()) {
      EXPECT_LT(run.peak_kib, kMostKib) << arguments[0];
    }
  }
  const ToolRun seeded = run_tool({"run", model, "--seed", "1"});
  EXPECT_EQ(seeded.exit_code, 4) << seeded.err;
  EXPECT_NE(seeded.err.find("random inputs would take 1,073,741,824 bytes, the limit is"), std::string::npos)
      << seeded.err;
}

// Samples of one element calibrate a network that keeps 16 values of 256 MiB. It must be refused before it is bound.
TEST(declared_sizes, of_values_bound_calibration) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 1});
  b.integers("pads", {8}, {0, 0, 4096, 4096, 0, 0, 4095, 4095});
  b.node("Pad", {"x", "pads"}, {"v0"});
  for (int i = 0; i < 16; ++i) b.node("Sigmoid", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
  b.output("v16");
  const TemporaryDirectory folder;
  write_bytes(folder / "n.onnx", b.finish());
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 1, 1), }";
  std::vector<uint8_t> npy = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
  for (size_t i = 0; i < 117; ++i) npy.push_back(uint8_t(i < header.size() ? header[i] : ' '));
  npy.push_back('\n');
  for (const int byte : {0, 0, 0, 0, 0, 0, 0x80, 0x3f}) npy.push_back(uint8_t(byte));
  write_bytes(folder / "x.npy", npy);
  const ToolRun run = run_tool({"convert", folder / "n.onnx", "-o", folder / "m.nacre", "--policy",
                                "int8/static_from_float32", "--calibrate", folder / "x.npy"});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("running the network with every value kept would take"), std::string::npos) << run.err;
  if (!nacre::test::sanitized()) {
    EXPECT_LT(run.peak_kib, kMostKib);
  }
}

// Makes a .npy that declares `shape`, followed by this many bytes that take no space on the disk.
std::string hollow_npy(const TemporaryDirectory& folder, const std::string& descr, const std::string& shape,
                       uint64_t bytes) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  const std::string start = std::string("\x93NUMPY\x01\x00v\x00", 10) + header + "\n";
  write_bytes(folder / "hollow.npy", {start.begin(), start.end()});
  std::filesystem::resize_file(folder / "hollow.npy", start.size() + bytes);
  return folder / "hollow.npy";
}

// Makes a .npz with one deflated array: its header, and zeros.
std::string deflated_npz(const TemporaryDirectory& folder, const std::string& npy, size_t zeros) {
  std::vector<uint8_t> bytes = read_bytes(npy);
  bytes.resize(bytes.size() + zeros);
  zip_t* archive = zip_open((folder / "x.npz").c_str(), ZIP_CREATE, nullptr);
  const zip_int64_t member =
      zip_file_add(archive, "pixels.npy", zip_source_buffer(archive, bytes.data(), bytes.size(), 0), 0);
  zip_set_file_compression(archive, zip_uint64_t(member), ZIP_CM_DEFLATE, 1);
  EXPECT_EQ(zip_close(archive), 0);
  return folder / "x.npz";
}

// Arrays are refused by their headers, before their elements are read: the expected dims and type are known by then.
TEST(declared_sizes, of_arrays_are_compared_before_their_elements_are_read) {
  constexpr uint64_t kHollow = uint64_t{3} << 30;
  const std::string samples = project_path("tools/samples/"), network = samples + "digits.onnx",
                    x = samples + "digits_images.npy", y = samples + "digits_labels.npy";
  const TemporaryDirectory models;
  const std::string model = models / "m.nacre";
  ASSERT_EQ(run_tool({"convert", network, "-o", model}).exit_code, 0);
  const struct {
    const char *descr, *shape;
    uint64_t bytes;
    std::vector<std::string> words;  // the file comes behind them
    const char* said;
  } cases[] = {
      {"|u1",
       "(1797,)",
       kHollow,
       {"eval", model, "--data", x, "--cast-inputs", "--labels"},
       "has 3221225472 bytes of elements, its shape needs 1797"},
      {"|u1",
       "(3221225472,)",
       kHollow,
       {"eval", model, "--data", x, "--cast-inputs", "--labels"},
       "holds 3,221,225,472 labels, and the data hold"},
      {"<f4",
       "(805306368,)",
       kHollow,
       {"eval", model, "--data", x, "--cast-inputs", "--labels"},
       "holds 805,306,368 labels, and the data hold"},
      {"|i1",
       "(3221225472,)",
       kHollow,
       {"eval", model, "--data", x, "--cast-inputs", "--labels", y, "--indices"},
       "holds 3,221,225,472 row numbers"},
      {"<f4", "(3, 268435456)", kHollow, {"run", model, "--input"}, "holds [3, 268435456], but the input"},
      {"<f4",
       "(3, 268435456)",
       kHollow,
       {"convert", network, "-o", models / "n", "--policy", "int8/static_from_float32", "--calibrate"},
       "holds [3, 268435456], but the input"},
      {"|u1",
       "(3221225472,)",
       kHollow,
       {"tune", network, "--loss", "softmax_cross_entropy", "-o", models / "n", "--data", x, "--cast-samples",
        "--labels"},
       "holds 3,221,225,472 labels"},
      {"|i1",
       "(3221225472,)",
       kHollow,
       {"tune", network, "--loss", "softmax_cross_entropy", "-o", models / "n", "--data", x, "--cast-samples",
        "--labels", y, "--validate"},
       "holds 3,221,225,472 row numbers"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.said);
    const TemporaryDirectory folder;
    std::vector<std::string> words = c.words;
    words.push_back(hollow_npy(folder, c.descr, c.shape, c.bytes));
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 3) << run.err;
    EXPECT_NE(run.err.find(c.said), std::string::npos) << run.err;
    if (!nacre::test::sanitized()) {
      EXPECT_LT(run.peak_kib, kMostKib);
    }
  }
}

TEST(declared_sizes, of_packed_arrays_bound_what_is_unpacked) {
  const std::string network = project_path("tools/samples/digits.onnx");
  for (const char* shape : {"(1, 64)", "(1, 1, 8, 8)", "(2, 67108864)"}) {
    const TemporaryDirectory folder;
    const std::string npz = deflated_npz(folder, hollow_npy(folder, "<f4", shape, 0), size_t{512} << 20);
    const ToolRun run = run_tool(
        {"convert", network, "-o", folder / "m.nacre", "--policy", "int8/static_from_float32", "--calibrate", npz});
    EXPECT_EQ(run.exit_code, 3) << run.err;
    EXPECT_EQ(run.err.rfind("nacre: " + npz + ": pixels.npy: ", 0), 0u) << run.err;
    if (!nacre::test::sanitized()) {
      EXPECT_LT(run.peak_kib, kMostKib);
    }
  }
}

}  // namespace
}  // namespace nacre::tools
