// Tests join_front_end, which joins a front end and the network that reads its features into one stream, against
// loops and against the two run separately.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "tests/compile/streamed.h"
#include "tests/project_path.h"
#include "tests/refused_with.h"
#include "tools/importers/importer.h"
#include "tools/passes/front_end.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// Computes the features f = (x_0 + x_3 + n, x_1 - x_2) of a frame x [1, 4].
// n is the first feature of the frame before, and 0 at first.
Graph two_features() {
  return parse(R"(graph "front" batch=1
value %x float32 [1, 4]
value %n float32 [1, 1] region=stream
value %a float32 [1, 1]
value %b float32 [1, 1]
value %c float32 [1, 1]
value %d float32 [1, 1]
value %ad float32 [1, 1]
value %f0 float32 [1, 1]
value %f1 float32 [1, 1]
value %kept float32 [1, 1]
value %f float32 [1, 2]
input "x" %x
output "f" %f
%a = slice(%x) size=[1, 1] begin=[0, 0]
%b = slice(%x) size=[1, 1] begin=[0, 1]
%c = slice(%x) size=[1, 1] begin=[0, 2]
%d = slice(%x) size=[1, 1] begin=[0, 3]
%ad = add(%a, %d)
%f0 = add(%ad, %n)
%kept = store(%f0, %n)
%f1 = sub(%b, %c)
%f = concat(%f0, %f1) axis=1
)");
}

// Builds y = w + w.
Graph doubled_window(const std::string& dims) {
  return parse("graph \"net\" batch=1\nvalue %w float32 " + dims + "\nvalue %y float32 " + dims +
               "\ninput \"w\" %w\noutput \"y\" %y\n%y = add(%w, %w)\n");
}

// A joined graph with final types, compiled by the passes after join_front_end and run.
class TypedStream {
 public:
  explicit TypedStream(Graph graph) : model_(made(std::move(graph)), "stream", ""), bound_(model_, 0) {}

  std::vector<uint8_t> run(const std::vector<uint8_t>& inputs) { return bound_.run(inputs); }

 private:
  static std::vector<uint8_t> made(Graph graph) {
    Job job;
    run_stages(graph, job, Stage::kFuse, Stage::kPlanMemory);
    const ProgramSource source = {
        .graph = &graph, .entry = Entry::kInfer, .target = "host", .kernels = kernels_of(job.compiling.target)};
    return write_model({&source, 1}, {});
  }

  LoadedModel model_;
  BoundProgram bound_;
};

Graph joined_stream(Graph network, const Graph& front_end, uint32_t hop, uint32_t hops) {
  join_front_end(network, front_end, {"front", hop, hops});
  check(network);
  return network;
}

// Returns the windows of a stream of integers, a row for each run: y = 2 (the last 3 frames' features).
std::vector<std::vector<float>> expected_windows(const std::vector<float>& samples, size_t hop, size_t hops) {
  std::vector<float> padded(4 - hop), features(6);
  padded.insert(padded.end(), samples.begin(), samples.end());
  float n = 0;
  std::vector<std::vector<float>> windows;
  for (size_t frame = 0; frame * hop + 4 <= padded.size(); ++frame) {
    const float* x = padded.data() + frame * hop;
    n += x[0] + x[3];
    features.insert(features.end(), {n, x[1] - x[2]});
    if ((frame + 1) % hops != 0) continue;
    std::vector<float>& y = windows.emplace_back(features.end() - 6, features.end());
    for (float& v : y) v *= 2;
  }
  return windows;
}

TEST(join_front_end, a_window_is_the_last_frames_of_the_stream) {
  for (const std::string dims : {"[1, 6]", "[1, 3, 2]", "[6]"})
    for (const uint32_t hop : {1u, 2u, 3u, 4u})
      for (const uint32_t hops : {1u, 2u, 3u}) {
        const size_t runs = 12, per_run = hop * hops;
        std::vector<float> samples;
        for (size_t i = 0; i < runs * per_run; ++i) samples.push_back(float(i * 7 % 13) - 5);
        const auto windows = expected_windows(samples, hop, hops);
        TypedStream stream(joined_stream(doubled_window(dims), two_features(), hop, hops));
        ASSERT_EQ(windows.size(), runs);
        for (size_t run = 0; run < runs; ++run) {
          const auto first = samples.begin() + ptrdiff_t(run * per_run);
          EXPECT_EQ(stream.run(bytes_of(std::vector<float>(first, first + ptrdiff_t(per_run)))), bytes_of(windows[run]))
              << dims << ", hop " << hop << ", hops " << hops << ", run " << run;
        }
      }
}

TEST(join_front_end, what_does_not_fit_is_refused) {
  const auto said = [](Graph network, Graph front_end, uint32_t hop, uint32_t hops, int code) {
    return refused_with([&] { joined_stream(network, front_end, hop, hops); }, code);
  };
  EXPECT_EQ(
      said(doubled_window("[1, 7]"), two_features(), 2, 1, kUsage),
      "--front-end: the front end gives float32 [1, 2] and the network reads float32 [1, 7]\n    a window is whole "
      "rows of features");
  EXPECT_EQ(said(doubled_window("[1, 6]"), two_features(), 5, 1, kUsage),
            "--hop 5: is more than the 4 samples of a frame, which would leave some out");
  EXPECT_EQ(said(doubled_window("[1, 6]"), two_features(), 2, 4, kUsage),
            "--hops 4: is more than the 3 rows that the network reads");
  Graph other = two_features();
  other.outputs.push_back(other.outputs[0]);
  EXPECT_EQ(said(doubled_window("[1, 6]"), other, 2, 1, kUnsupported),
            "--front-end: front has 2 outputs\n    features are one");
  Graph frames = two_features();
  frames.inputs[0].value = frames.outputs[0].value;
  Graph coded = parse(
      "graph \"net\" batch=1\nvalue %w int8 [1, 6]\nvalue %y int8 [1, 6]\ninput \"w\" %w\noutput \"y\" %y\n"
      "%y = copy(%w)\n");
  EXPECT_EQ(
      said(coded, two_features(), 2, 1, kUsage),
      "--front-end: the front end gives float32 [1, 2] and the network reads int8 [1, 6]\n    both must be of one "
      "type");
}

// ---- TensorFlow Lite Micro's front end, 30 ms every 20 ms, and its network that reads 49 frames ----

constexpr size_t kSpeechFrame = 480, kSpeechHop = 320, kSpeechFeatures = 40, kSpeechRows = 49;

std::string speech_file(const char* name) { return shared_path(std::string("models/tflm/") + name); }

// Returns silence, two words and noise without the files' headers of 44 bytes. A word's offset is not a multiple of
// the hop.
std::vector<int16_t> speech_track() {
  std::vector<int16_t> samples(1234);
  for (const char* name : {"yes_1000ms.wav", "noise_1000ms.wav", "no_1000ms.wav", "silence_1000ms.wav"}) {
    const std::vector<uint8_t> file = read_network(speech_file(name));
    for (size_t i = 44; i + 1 < file.size(); i += 2) samples.push_back(int16_t(file[i] | file[i + 1] << 8));
  }
  samples.resize(samples.size() / (4 * kSpeechHop) * 4 * kSpeechHop);
  return samples;
}

std::vector<uint8_t> samples_from(const std::vector<int16_t>& samples, size_t first, size_t count) {
  return bytes_of(std::vector<int16_t>(samples.begin() + ptrdiff_t(first), samples.begin() + ptrdiff_t(first + count)));
}

TEST(join_front_end, the_ring_holds_the_features_of_whole_frames) {
  if (!std::filesystem::exists(speech_file("audio_preprocessor_int8.tflite"))) GTEST_SKIP() << "no shared networks";
  const std::vector<int16_t> samples = speech_track();
  std::vector<int16_t> padded(kSpeechFrame - kSpeechHop);
  padded.insert(padded.end(), samples.begin(), samples.end());
  Streamed front_end(import_network(speech_file("audio_preprocessor_int8.tflite")));
  std::vector<uint8_t> features(kSpeechRows * kSpeechFeatures);  // features of every frame, after an empty window
  for (size_t first = 0; first + kSpeechFrame <= padded.size(); first += kSpeechHop) {
    const std::vector<uint8_t> row = front_end.run(samples_from(padded, first, kSpeechFrame));
    features.insert(features.end(), row.begin(), row.end());
  }
  const Graph window = parse(
      "graph \"window\" batch=1\nvalue %w int8 [1, 1960]\nvalue %y int8 [1, 1960]\ninput \"w\" %w\n"
      "output \"y\" %y\n%y = copy(%w)\n");
  Streamed network(import_network(speech_file("micro_speech_quantized.tflite")));
  for (const uint32_t hops : {1u, 4u}) {
    CompileOptions options;
    options.front_end = {speech_file("audio_preprocessor_int8.tflite"), kSpeechHop, hops};
    Streamed ring(window, options);
    Streamed stream(import_network(speech_file("micro_speech_quantized.tflite")), options);
    // A ring, the last 160 samples, and the noise estimate, each at a multiple of 16 bytes.
    EXPECT_EQ(ring.stream_bytes(), 1968u + 320 + 160);
    size_t frame = 0;
    for (size_t first = 0; first < samples.size(); first += hops * kSpeechHop) {
      frame += hops;
      const auto last = features.begin() + ptrdiff_t((kSpeechRows + frame) * kSpeechFeatures);
      const std::vector<uint8_t> expected(last - ptrdiff_t(kSpeechRows * kSpeechFeatures), last);
      const std::vector<uint8_t> x = samples_from(samples, first, hops * kSpeechHop);
      ASSERT_EQ(ring.run(x), expected) << hops << " hops, frame " << frame;
      ASSERT_EQ(stream.run(x), network.run(expected)) << hops << " hops, frame " << frame;
    }
    EXPECT_GE(frame, 200u);
  }
}

}  // namespace
}  // namespace nacre::tools
