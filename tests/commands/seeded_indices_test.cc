// Tests that seeded inputs used as indices are rows of their table, so that golden pairs and runs of embedding
// networks need no data. Wrong indices in a file are reported as the data's fault, not the converter's.
#include <gtest/gtest.h>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

// Builds a network with tables of 3 and 50 rows. One input indexes both, as it is and reshaped.
std::vector<uint8_t> embedding_network(int type) {
  OnnxBuilder b;
  b.input("ids", {1, 40}, {}, type);
  b.counted("small", {3, 2});
  b.counted("large", {50, 2});
  b.integers("dims", {2}, {40, 1});
  b.node("Reshape", {"ids", "dims"}, {"column"});
  b.node("Gather", {"large", "ids"}, {"a"});
  b.node("Gather", {"small", "column"}, {"b"});
  b.integers("flat", {2}, {1, 80});
  b.node("Reshape", {"a", "flat"}, {"fa"});
  b.node("Reshape", {"b", "flat"}, {"fb"});
  b.node("Add", {"fa", "fb"}, {"y"});
  b.output("y");
  return b.finish();
}

TEST(seeded_indices, are_rows_of_the_smallest_table_they_reach) {
  for (const int type : {::onnx::TensorProto::INT32, ::onnx::TensorProto::INT64}) {
    const TemporaryDirectory folder;
    const std::string model = folder / "m.nacre";
    write_bytes(folder / "n.onnx", embedding_network(type));
    const std::vector<std::string> commands[] = {
        {"convert", folder / "n.onnx", "-o", model, "--golden", "3"}, {"check", model}, {"run", model, "--seed", "7"}};
    for (const auto& arguments : commands) {
      const ToolRun run = run_tool(arguments);
      EXPECT_EQ(run.exit_code, 0) << run.err;
    }
  }
}

// Recommender networks have one table in which each column of the ids has rows of its own.
TEST(seeded_indices, to_which_others_are_added_are_0) {
  OnnxBuilder b;
  b.input("ids", {1, 3}, {}, ::onnx::TensorProto::INT64);
  b.integers("starts", {3}, {0, 3, 4});
  b.counted("table", {5, 2});
  b.node("Add", {"ids", "starts"}, {"rows"});
  b.node("Gather", {"table", "rows"}, {"y"});
  b.output("y");
  const TemporaryDirectory folder;
  write_bytes(folder / "n.onnx", b.finish());
  ASSERT_EQ(run_tool({"convert", folder / "n.onnx", "-o", folder / "m.nacre"}).exit_code, 0);
  const ToolRun run = run_tool({"run", folder / "m.nacre", "--seed", "7"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(seeded_indices, from_a_file_that_are_no_rows_are_the_files_fault) {
  const TemporaryDirectory folder;
  const std::string model = folder / "m.nacre";
  write_bytes(folder / "n.onnx", embedding_network(::onnx::TensorProto::INT64));
  ASSERT_EQ(run_tool({"convert", folder / "n.onnx", "-o", model}).exit_code, 0);
  std::vector<int64_t> ids(80, 2);
  ids[70] = 3;
  NpyArray array = {.type = ElementType::kInt64, .dims = {2, 40}, .data = std::vector<uint8_t>(ids.size() * 8)};
  std::memcpy(array.data.data(), ids.data(), array.data.size());
  write_npy(folder / "ids.npy", array);
  const std::vector<std::string> commands[] = {{"run", model, "--input", "ids=" + (folder / "ids.npy")},
                                               {"convert", folder / "n.onnx", "-o", folder / "static.nacre", "--policy",
                                                "int8/static_from_float32", "--calibrate", folder / "ids.npy"}};
  for (const auto& arguments : commands) {
    const ToolRun run = run_tool(arguments);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_NE(run.err.find("an index in the data is out of range"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("give indices below the number of rows of their table"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("defect"), std::string::npos) << run.err;
  }
}

}  // namespace
}  // namespace nacre::tools
