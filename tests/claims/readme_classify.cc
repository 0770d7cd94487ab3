// The end of README's C++ program, which tests put behind the function that stands there. It reads plain.nacre and
// image.bin, and prints the scores.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

struct Line64 {
  alignas(64) std::byte bytes[64];
};

int main() {
  std::ifstream file("plain.nacre", std::ios::binary);
  const std::vector<char> read{std::istreambuf_iterator<char>(file), {}};
  std::vector<Line64> model(read.size() / 64 + 1), memory(1 << 14);
  std::memcpy(model.data(), read.data(), read.size());
  std::ifstream images("image.bin", std::ios::binary);
  float pixels[64], scores[10];
  images.read(reinterpret_cast<char*>(pixels), sizeof pixels);
  const nacre::Status status =
      classify({model.data()->bytes, read.size()}, {memory.data()->bytes, memory.size() * 64}, pixels, scores);
  if (!status.ok()) return std::printf("%s\n", nacre::sentence(status.code)), 1;
  for (const float score : scores) std::printf("%.9g\n", double(score));
}
