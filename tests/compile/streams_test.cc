// Tests networks of UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM and SVDF, whose variables are kept from
// run to run. Float layers are compared with loops in float64, TensorFlow Lite Micro's example networks with LiteRT
// (tests/peers/streams_litert.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/compile/streamed.h"
#include "tests/importers/tflite_imports.h"
#include "tests/project_path.h"
#include "tools/base/json.h"

namespace nacre::tools::tflite {
namespace {

// Draws numbers in (-1, 1), the same on every machine.
std::vector<float> drawn(size_t count, uint32_t seed) {
  std::vector<float> x(count);
  for (float& v : x) v = float((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
  return x;
}

constexpr int kIn = 3, kWidth = 2, kTime = 4;

struct Weights {  // of one direction; rows of the gates i, f, g, o in this order
  std::vector<float> w, r, b;
  explicit Weights(uint32_t seed)
      : w(drawn(4 * kWidth * kIn, seed)), r(drawn(4 * kWidth * kWidth, seed + 1)), b(drawn(4 * kWidth, seed + 2)) {}
};

constexpr float kCodeScale = 1.0f / 128;

std::vector<int8_t> codes_of(const std::vector<float>& numbers) {
  std::vector<int8_t> codes;
  for (const float v : numbers) codes.push_back(int8_t(std::lround(double(v) * 127)));
  return codes;
}

// Returns the reals that the weights' codes stand for.
Weights in_codes(Weights weights) {
  for (std::vector<float>* numbers : {&weights.w, &weights.r})
    for (float& v : *numbers) v = kCodeScale * float(std::lround(double(v) * 127));
  return weights;
}

struct State {
  std::vector<double> h = std::vector<double>(kWidth), c = std::vector<double>(kWidth);
};

// Returns y [time, width] for x [time, in].
std::vector<double> lstm(const Weights& weights, const std::vector<float>& x, double clip, State& state) {
  std::vector<double> y;
  for (size_t t = 0; t < x.size() / kIn; ++t) {
    std::vector<double> h(kWidth);
    for (size_t j = 0; j < kWidth; ++j) {
      double gate[4];
      for (size_t k = 0; k < 4; ++k) {
        const size_t row = k * kWidth + j;
        double a = double(weights.b[row]);
        for (size_t i = 0; i < kIn; ++i) a += double(weights.w[row * kIn + i]) * double(x[t * kIn + i]);
        for (size_t i = 0; i < kWidth; ++i) a += double(weights.r[row * kWidth + i]) * state.h[i];
        gate[k] = k == 2 ? std::tanh(a) : 1 / (1 + std::exp(-a));
      }
      const double c = gate[1] * state.c[j] + gate[0] * gate[2];
      state.c[j] = clip > 0 ? std::clamp(c, -clip, clip) : c;
      h[j] = gate[3] * std::tanh(state.c[j]);
    }
    state.h = h;
    y.insert(y.end(), h.begin(), h.end());
  }
  return y;
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected, const std::string& place) {
  ASSERT_EQ(found.size(), expected.size()) << place;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(double(found[i]), expected[i], 1e-5) << place << ' ' << i;
}

int variable(TfliteBuilder& b, const std::string& name, int32_t elements) {
  return b.tensor({.name = name, .shape = {1, elements}, .data = {}, .codes = {}, .signature = {}, .variable = true});
}

// Adds the operands of a direction: weights, recurrent weights, biases, then two states.
void add_direction(TfliteBuilder& b, const Weights& from, const std::string& name, std::vector<int32_t>& operands,
                   const std::array<size_t, 4>& slots, bool coded = false) {
  const auto part = [&](const std::vector<float>& all, size_t k) {
    const size_t size = all.size() / 4;
    return std::vector<float>(all.begin() + long(k * size), all.begin() + long((k + 1) * size));
  };
  for (size_t k = 0; k < 4; ++k) {
    const std::string gate = name + "ifgo"[k];
    const auto weights = [&](const std::string& kind, int32_t columns, const std::vector<float>& numbers) {
      if (!coded) return b.floats(kind + gate, {kWidth, columns}, numbers);
      return b.codes(kind + gate, {kWidth, columns}, codes_of(numbers), {{kCodeScale}, {0}});
    };
    operands[slots[0] + k] = weights("w", kIn, part(from.w, k));
    operands[slots[1] + k] = weights("r", kWidth, part(from.r, k));
    operands[slots[2] + k] = b.floats("b" + gate, {kWidth}, part(from.b, k));
  }
  operands[slots[3]] = variable(b, name + "h", kWidth);
  operands[slots[3] + 1] = variable(b, name + "c", kWidth);
}

struct LstmFile {
  float clip = 0;
  bool time_major = false;
  Activation activation = Activation::TANH;
  int32_t other = -1;  // an operand that another kind of LSTM has: 9 peephole, 16 projection, 20 normalization
  bool coded = false;  // weights of int8
};

std::vector<uint8_t> lstm_file(const Weights& weights, const LstmFile& file = {}) {
  TfliteBuilder b;
  const std::vector<int32_t> first = file.time_major ? std::vector<int32_t>{kTime, 1} : std::vector<int32_t>{1, kTime};
  const int x = b.activation("x", {first[0], first[1], kIn}), y = b.activation("y", {first[0], first[1], kWidth});
  std::vector<int32_t> operands(24, -1);
  operands[0] = x;
  add_direction(b, weights, "", operands, {1, 5, 12, 18}, file.coded);
  if (file.other >= 0) operands[size_t(file.other)] = b.floats("other", {kWidth}, {1, 1});
  b.op(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, operands, {y},
       CreateUnidirectionalSequenceLSTMOptions(b.fbb(), file.activation, file.clip, 0, file.time_major));
  return b.finish({x}, {y});
}

TEST(streams_of_tflite, an_lstm_keeps_its_state_from_run_to_run) {
  for (const float clip : {0.0f, 0.25f})
    for (const bool time_major : {false, true}) {
      const Weights weights(7);
      const Graph graph = imported(lstm_file(weights, {.clip = clip, .time_major = time_major}));
      Streamed streamed(graph);
      EXPECT_EQ(streamed.stream_bytes(), 2 * 16u);
      State state;
      for (uint32_t run = 0; run < 4; ++run) {
        const std::vector<float> x = drawn(kTime * kIn, 100 + run);
        expect_near(streamed.run(x), lstm(weights, x, double(clip), state), "run " + std::to_string(run));
      }
    }
}

// With 16-bit floats the cell stays float32. The network's results agree within their rounding.
TEST(streams_of_tflite, an_lstm_runs_in_other_types) {
  const Weights weights(7);
  for (const char* policy : {"mixed_float16", "mixed_bfloat16", "float64"}) {
    CompileOptions options;
    options.policies = parse_policy_options({.policy = policy});
    Streamed streamed(imported(lstm_file(weights)), options);
    State state;
    for (uint32_t run = 0; run < 3; ++run) {
      const std::vector<float> x = drawn(kTime * kIn, 100 + run), y = streamed.run(x);
      const std::vector<double> expected = lstm(weights, x, 0, state);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(double(y[i]), expected[i], 0.03) << policy;
    }
  }
}

// int8 weights under float32 activations keep their codes. Activations are not rounded.
TEST(streams_of_tflite, weights_in_codes_are_the_numbers_that_they_stand_for) {
  const Weights weights(7);
  Streamed streamed(imported(lstm_file(weights, {.coded = true})));
  State state;
  for (uint32_t run = 0; run < 3; ++run) {
    const std::vector<float> x = drawn(kTime * kIn, 100 + run);
    expect_near(streamed.run(x), lstm(in_codes(weights), x, 0, state), "run " + std::to_string(run));
  }
}

TEST(streams_of_tflite, both_directions_of_an_lstm_keep_their_states) {
  const Weights forward(7), backward(70);
  for (const bool merged : {false, true}) {
    TfliteBuilder b;
    const int x = b.activation("x", {1, kTime, kIn});
    std::vector<int32_t> outputs = {b.activation("y", {1, kTime, merged ? 2 * kWidth : kWidth})};
    if (!merged) outputs.push_back(b.activation("z", {1, kTime, kWidth}));
    std::vector<int32_t> operands(48, -1);
    operands[0] = x;
    add_direction(b, forward, "f", operands, {1, 5, 12, 35});
    add_direction(b, backward, "b", operands, {18, 22, 29, 37});
    b.op(BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM, operands, outputs,
         CreateBidirectionalSequenceLSTMOptions(b.fbb(), Activation::TANH, 0, 0, merged, false));
    Streamed streamed(imported(b.finish({x}, outputs)));
    State states[2];
    for (uint32_t run = 0; run < 3; ++run) {
      const std::vector<float> given = drawn(kTime * kIn, 100 + run);
      std::vector<float> turned;
      for (size_t t = kTime; t-- > 0;)
        turned.insert(turned.end(), given.begin() + long(t * kIn), given.begin() + long((t + 1) * kIn));
      const std::vector<double> first = lstm(forward, given, 0, states[0]), last = lstm(backward, turned, 0, states[1]);
      std::vector<double> expected = merged ? std::vector<double>() : first;
      for (size_t t = 0; t < kTime; ++t) {
        if (merged)
          expected.insert(expected.end(), first.begin() + long(t * kWidth), first.begin() + long((t + 1) * kWidth));
        const auto from = last.begin() + long((kTime - 1 - t) * kWidth);
        expected.insert(expected.end(), from, from + kWidth);
      }
      expect_near(streamed.run(given), expected, merged ? "merged" : "apart");
    }
  }
}

TEST(streams_of_tflite, other_kinds_of_lstm_are_refused) {
  const Weights weights(7);
  const std::pair<LstmFile, const char*> kinds[] = {{{.activation = Activation::RELU}, "another activation than tanh"},
                                                    {{.other = 10}, "with peepholes"},
                                                    {{.other = 16}, "with a projection"},
                                                    {{.other = 21}, "with layer normalization"}};
  for (const auto& [file, why] : kinds)
    EXPECT_NE(refusal(lstm_file(weights, file), kUnsupported).find(why), std::string::npos) << why;
  EXPECT_NE(refusal(lstm_file(weights, {.clip = NAN}), kBadInput).find("clips its cell"), std::string::npos);
}

TEST(streams_of_tflite, states_that_are_no_variables_are_refused) {
  const auto with_state = [](const std::function<int(TfliteBuilder&, int x)>& make) {
    TfliteBuilder b;
    const int x = b.activation("x", {1, kTime, kIn}), y = b.activation("y", {1, kTime, kWidth});
    std::vector<int32_t> operands(24, -1);
    operands[0] = x;
    add_direction(b, Weights(7), "", operands, {1, 5, 12, 18});
    operands[19] = make(b, operands[18]);
    b.op(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, operands, {y},
         CreateUnidirectionalSequenceLSTMOptions(b.fbb(), Activation::TANH));
    return b.finish({x}, {y});
  };
  EXPECT_NE(refusal(with_state([](auto& b, int) { return b.floats("c", {1, kWidth}, {0, 0}); }), kUnsupported)
                .find("does not keep in a variable"),
            std::string::npos);
  EXPECT_NE(refusal(with_state([](auto&, int h) { return h; }), kUnsupported).find("of another layer"),
            std::string::npos);
  EXPECT_NE(refusal(with_state([](auto& b, int) { return variable(b, "c", 3); }), kBadInput).find("has shape [1, 3]"),
            std::string::npos);
  EXPECT_NE(refusal(with_state([](auto&, int) { return -1; }), kBadInput).find("input 19 is missing"),
            std::string::npos);
}

constexpr int kFilters = 4, kRank = 2, kMemory = 3;

std::vector<uint8_t> svdf_file(const std::vector<float>& features, const std::vector<float>& time,
                               const std::vector<float>& bias, int32_t rank = kRank) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, kIn}), y = b.activation("y", {1, kFilters / kRank});
  b.op(BuiltinOperator::SVDF,
       {x, b.floats("features", {kFilters, kIn}, features), b.floats("time", {kFilters, kMemory}, time),
        b.floats("bias", {kFilters / kRank}, bias), variable(b, "past", kFilters * kMemory)},
       {y}, CreateSVDFOptions(b.fbb(), rank, Activation::RELU));
  return b.finish({x}, {y});
}

TEST(streams_of_tflite, an_svdf_filters_what_it_was_given_before) {
  const std::vector<float> features = drawn(kFilters * kIn, 1), time = drawn(kFilters * kMemory, 2), bias = {0.5f, 1};
  Streamed streamed(imported(svdf_file(features, time, bias)));
  std::vector<std::vector<double>> past(kMemory, std::vector<double>(kFilters));  // the oldest first
  for (uint32_t run = 0; run < 5; ++run) {
    const std::vector<float> x = drawn(kIn, 100 + run);
    past.erase(past.begin());
    past.emplace_back();
    for (size_t f = 0; f < kFilters; ++f) {
      double sum = 0;
      for (size_t i = 0; i < kIn; ++i) sum += double(features[f * kIn + i]) * double(x[i]);
      past.back().push_back(sum);
    }
    std::vector<double> expected(bias.begin(), bias.end());
    for (size_t f = 0; f < kFilters; ++f)
      for (size_t m = 0; m < kMemory; ++m) expected[f / kRank] += double(time[f * kMemory + m]) * past[m][f];
    for (double& v : expected) v = std::max(v, 0.0);
    expect_near(streamed.run(x), expected, "run " + std::to_string(run));
  }
  EXPECT_NE(refusal(svdf_file(features, time, bias, 3), kBadInput).find("4 filters of rank 3"), std::string::npos);
}

TEST(streams_of_tflite, a_network_with_states_takes_another_batch) {
  const Weights weights(7);
  Streamed streamed(imported(lstm_file(weights), {.batch = 2}));
  State states[2];
  for (uint32_t run = 0; run < 3; ++run) {
    std::vector<float> x;
    std::vector<double> expected;
    for (uint32_t n = 0; n < 2; ++n) {
      const std::vector<float> one = drawn(kTime * kIn, 100 + 2 * run + n);
      const std::vector<double> y = lstm(weights, one, 0, states[n]);
      x.insert(x.end(), one.begin(), one.end());
      expected.insert(expected.end(), y.begin(), y.end());
    }
    expect_near(streamed.run(x), expected, "run " + std::to_string(run));
  }
}

// Builds y = x + variable: the variable is read, then assigned y.
std::vector<uint8_t> counting_file(const std::vector<float>& initial, bool read_again) {
  TfliteBuilder b;
  b.once("total", initial);
  const int x = b.activation("x", {2}), before = b.activation("before", {2}), y = b.activation("y", {2});
  const int handle = b.variable("total");
  b.op(BuiltinOperator::READ_VARIABLE, {handle}, {before});
  b.op(BuiltinOperator::ADD, {x, before}, {y}, CreateAddOptions(b.fbb()));
  b.op(BuiltinOperator::ASSIGN_VARIABLE, {handle, y}, {});
  const int z = b.activation("z", {2}), after = b.activation("after", {2});
  if (!read_again) {  // what was read stays what it was
    b.op(BuiltinOperator::SUB, {y, before}, {z}, CreateSubOptions(b.fbb()));
    return b.finish({x}, {y, z});
  }
  b.op(BuiltinOperator::READ_VARIABLE, {handle}, {after});
  b.op(BuiltinOperator::SUB, {after, x}, {z}, CreateSubOptions(b.fbb()));
  return b.finish({x}, {y, z});
}

TEST(streams_of_tflite, variables_are_read_and_assigned_in_order) {
  for (const bool read_again : {false, true}) {
    Streamed streamed(imported(counting_file({0, 0}, read_again)));
    for (int run = 1; run <= 3; ++run) {
      const auto total = float(run), z = read_again ? total - 1 : 1;
      EXPECT_EQ(streamed.run(std::vector<float>{1, 2}), (std::vector<float>{total, 2 * total, z, 2 * z})) << read_again;
    }
  }
  EXPECT_NE(refusal(counting_file({0, 1}, false), kUnsupported).find("does not start as zeros"), std::string::npos);
}

// ---- TensorFlow Lite Micro's example networks: tests/peers/streams_tflite.py ----

std::vector<uint8_t> input_of_run(const Value& x, uint32_t run) {
  std::vector<uint8_t> codes;
  std::vector<float> numbers;
  uint32_t state = run + 1;
  for (int64_t i = 0; i < x.elements(); ++i) {
    state = 1664525u * state + 1013904223u;
    codes.push_back(uint8_t((state >> 24) ^ 0x80));
    numbers.push_back(float(state >> 24) / 256);
  }
  return x.quantizer ? codes : bytes_of(numbers);
}

// Returns sum_i (i mod 997 + 1) y_i over the codes of y, which follow the `skipped` bytes of another output.
int64_t sum_of(const std::vector<uint8_t>& bytes, size_t skipped) {
  int64_t sum = 0;
  for (size_t i = skipped; i < bytes.size(); ++i) sum += int64_t((i - skipped) % 997 + 1) * int8_t(bytes[i]);
  return sum;
}

ValueId last_loop(const Graph& graph) {
  const auto is_loop = [](const Node& node) { return node.op == Op::kStreamLstm; };
  return std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), is_loop)->outputs[0];
}

void expect_runs(const Json& network, Graph graph) {
  const std::string file = network.at("file").get<std::string>();
  const Value x = graph.values[size_t(graph.inputs[0].value)];
  const bool coded = x.quantizer.has_value();
  if (coded) graph.outputs.push_back({"last_loop", last_loop(graph), ""});
  CompileOptions options;
  options.rounding = Rounding::kNone;
  Streamed streamed(std::move(graph), options);
  for (size_t run = 0; run < network.at("runs").size(); ++run) {
    const std::string place = file + ", run " + std::to_string(run);
    const std::vector<uint8_t> found = streamed.run(input_of_run(x, uint32_t(run)));
    const Json& expected = network.at("runs")[run];
    for (size_t i = 0; i < expected.size(); ++i) {
      if (coded) {
        ASSERT_EQ(int(int8_t(found[i])), expected[i].get<int>()) << place << ", code " << i;
        continue;
      }
      float y = 0;
      std::memcpy(&y, found.data() + i * sizeof y, sizeof y);
      ASSERT_NEAR(double(y), expected[i].get<double>(), 1e-5) << place << ", number " << i;
    }
    if (!coded) continue;
    EXPECT_EQ(sum_of(found, expected.size()), network.at("sums")[run].get<int64_t>()) << place;
  }
}

TEST(streams_of_tflite, example_networks_give_the_numbers_of_litert) {
  std::ifstream file(project_path("tests/peers/streams_litert.json"));
  const Json table = Json::parse(file);
  for (const Json& network : table.at("networks")) {
    const std::string path = shared_path("models/tflm/" + network.at("file").get<std::string>());
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
    expect_runs(network, import_network(path));
    if (HasFatalFailure()) return;
  }
}

TEST(streams_of_tflite, the_noise_suppressor_gives_the_codes_of_tensorflow_lite_micro) {
  const std::string path = shared_path("models/tflm/dtln_noise_suppression.tflite");
  std::ifstream file(shared_path("golden/tflm_examples.json"));
  if (!file || !std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Json dtln = Json::parse(file).at("dtln");
  const auto codes = [&](const char* name) { return bytes_of(dtln.at(name).get<std::vector<int8_t>>()); };
  Streamed streamed(import_network(path));
  EXPECT_EQ(streamed.run(codes("feature_data")), codes("golden_ref"));
}

}  // namespace
}  // namespace nacre::tools::tflite
