// Converts TensorFlow Lite Micro's own example, whose biases have a quantized_dimension outside their rank, and runs
// it on the example's two pictures.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/run_tool.h"

namespace nacre::tools {
namespace {

constexpr size_t kSide = 96;

// Returns a grey picture of 96 x 96 bytes, stored from the last row to the first, as codes with the zero point -128.
std::vector<uint8_t> codes_of_picture(const std::vector<uint8_t>& bmp) {
  const size_t pixels = size_t(bmp[10]) | size_t(bmp[11]) << 8;  // bfOffBits
  std::vector<uint8_t> codes;
  for (size_t row = kSide; row-- > 0;)
    for (size_t column = 0; column < kSide; ++column)
      codes.push_back(uint8_t(bmp.at(pixels + row * kSide + column) ^ 0x80));
  return codes;
}

// The expected codes are LiteRT 2.3.0's (reference kernels) for a copy of the file whose biases have dimension 0.
// LiteRT refuses the file itself.
TEST(person_detect, gives_the_codes_of_litert) {
  const std::string network = shared_path("models/tflm/person_detect.tflite");
  if (!std::filesystem::exists(network)) GTEST_SKIP() << "NACRE_SHARED has no " << network;
  const TemporaryDirectory directory;
  const std::string model = directory / "person_detect.nacre";
  const ToolRun converted = run_tool({"convert", network, "-o", model});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_EQ(run_tool({"check", model}).exit_code, 0);

  const std::pair<const char*, const char*> pictures[] = {{"person", "4 -4"}, {"no_person", "77 -77"}};
  for (const auto& [picture, codes] : pictures) {
    const std::string input = directory / (std::string(picture) + ".bin");
    write_bytes(input, codes_of_picture(read_bytes(shared_path(std::string("models/tflm/") + picture + ".bmp"))));
    const ToolRun run = run_tool({"run", model, "--input", "input=" + input});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.out.find("\n    " + std::string(codes) + "\n"), std::string::npos) << picture << ": " << run.out;
  }
}

}  // namespace
}  // namespace nacre::tools
