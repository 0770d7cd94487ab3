// Runs commands on a compressed .npz that inflates to 384 MiB. No command's memory may grow with it.
#include <gtest/gtest.h>
#include <zip.h>

#include <cstdlib>
#include <cstring>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

constexpr int64_t kLargeRows = 1536, kSide = 128;  // 256 KiB a row
constexpr long kMostLargeKib = 240 * 1024;         // whatever the rows; the whole inflated set is 384 * 1024

std::vector<uint8_t> pooled_network() {
  OnnxBuilder b;
  b.input("x", {1, 4, kSide, kSide}, {"n", "", "", ""});
  b.counted("w", {4, 4});
  b.node("GlobalAveragePool", {"x"}, {"p"});
  b.node("Flatten", {"p"}, {"f"});
  b.node("MatMul", {"f", "w"}, {"y"});
  b.output("y");
  return b.finish();
}

// Writes a .npz with one deflated member, x.npy.
bool write_deflated(const std::string& path) {
  NpyArray x = {.type = ElementType::kFloat32, .dims = {kLargeRows, 4, kSide, kSide}, .data = {}};
  x.data.resize(size_t(x.elements()) * sizeof(float));
  for (size_t row = 0; row < size_t(kLargeRows); ++row) {
    const float value = float(row % 7);
    std::memcpy(&x.data[row * size_t(4 * kSide * kSide) * sizeof value], &value, sizeof value);
  }
  const std::vector<uint8_t> bytes = npy_bytes(x);
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  if (archive == nullptr) return false;
  zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  const zip_int64_t member = source == nullptr ? -1 : zip_file_add(archive, "x.npy", source, 0);
  if (member < 0 || zip_set_file_compression(archive, zip_uint64_t(member), ZIP_CM_DEFLATE, 1) != 0) {
    zip_discard(archive);
    return false;
  }
  return zip_close(archive) == 0;
}

TEST(large_inputs, need_no_memory_that_grows_with_them) {
  if (const char* const sanitized = std::getenv("NACRE_SANITIZED"); sanitized != nullptr && *sanitized != 0)
    GTEST_SKIP() << "measures memory, and a sanitizer takes several times as much";
  const TemporaryDirectory folder;
  const std::string network = folder / "n.onnx", model = folder / "n.nacre", other = folder / "o.nacre",
                    data = folder / "x.npz", labels = folder / "y.npy";
  write_bytes(network, pooled_network());
  ASSERT_TRUE(write_deflated(data));
  NpyArray y = {.type = ElementType::kInt64, .dims = {kLargeRows}, .data = {}};
  y.data.resize(size_t(kLargeRows) * sizeof(int64_t));
  for (size_t i = 0; i < size_t(kLargeRows); ++i) y.data[i * sizeof(int64_t)] = uint8_t(i % 4);
  write_npy(labels, y);
  ASSERT_EQ(run_tool({"convert", network, "-o", model}).exit_code, 0);
  ASSERT_EQ(run_tool({"convert", network, "-o", other, "--policy", "int8_from_float32"}).exit_code, 0);
  const std::string policies = "float32,int8_from_float32";
  const std::vector<std::vector<std::string>> commands = {
      {"run", model, "--input", data},
      {"eval", model, "--data", data, "--labels", labels},
      {"compare", model, other, "--data", data},
      {"convert", network, "-o", folder / "c.nacre", "--policy", "int8/static_from_float32", "--calibrate", data},
      {"search", network, "--data", data, "--labels", labels, "--max-drop", "50", "--policies", policies, "-o",
       folder / "map.json"},
      {"report", network, "--policies", policies, "--data", data, "--labels", labels, "-o", folder / "page.html"},
      {"tune", network, "--loss", "softmax_cross_entropy", "--data", data, "--labels", labels, "--epochs", "1",
       "--batch", "16", "-o", folder / "t.nacre"}};
  for (const std::vector<std::string>& command : commands) {
    const ToolRun run = run_tool(command);
    EXPECT_EQ(run.exit_code, 0) << command[0] << ": " << run.err;
    EXPECT_LT(run.peak_kib, kMostLargeKib) << command[0];
    std::printf("%s: %ld KiB\n", command[0].c_str(), run.peak_kib);
  }
}

}  // namespace
}  // namespace nacre::tools
