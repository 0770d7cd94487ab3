// Converts the audio front end of TensorFlow Lite Micro: its custom Signal operators on integers. Numbers of int16 and
// uint32 are values of int32, until a CAST. The operators become nodes of the op signal (engine/ops/signal.h), or plain
// arithmetic where that is exact. One run leaves the estimate of the noise to the next.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/ops/signal.h"
#include "tools/importers/shared/flex_map.h"
#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

using Ints = Steps::Ints;

// Makes x, of int32, output i of the operator, and marks that output's tensor as one of the front end.
void define_signal(Importer& importer, const Operation& op, size_t i, ValueId x) {
  if (i >= op.outputs.size()) importer.bad(op, "has no output " + std::to_string(i));
  if (importer.scope().is_result(op.outputs[i]))
    importer.unsupported(op, "an output of the network; end it behind a CAST");
  importer.scope().values[size_t(op.outputs[i])] = x;
  importer.scope().front_end.signals.insert(op.outputs[i]);
}

class Options {
 public:
  Options(const Importer& importer, const Operation& op) : importer_(importer), op_(op), map_(*op.record) {}

  int64_t operator()(const char* name, int64_t low, int64_t high) const {
    const std::optional<int64_t> v = map_.find(name);
    if (!v) importer_.bad(op_, std::string("its options have no number ") + name);
    if (*v < low || *v > high) importer_.unsupported(op_, std::string(name) + " of " + std::to_string(*v));
    return *v;
  }

 private:
  const Importer& importer_;
  const Operation& op_;
  const FlexMap map_;
};

class SignalOperator {
 public:
  SignalOperator(Importer& importer, Operation& op) : importer_(importer), op_(op), s_(importer, op) {
    op.layer = importer.graph().add_layer({op.name, op.code_name, {}});  // emit() would name the layer by an output
  }

  // Converts SignalWindow: y = floor(x w / 2^shift), saturated to int16.
  void window() {
    const auto shift = Options(importer_, op_)("shift", 0, 30);
    const ValueId x = numbers(0);
    const Ints w = table(1);
    if (s_.dims(x).empty() || s_.dims(x).back() != int64_t(w.size()))
      importer_.bad(op_, "its window has another length");
    ValueId y = s_(Op::kMul, {x, constant(w)});
    y = s_.binary(Binary::kFloorDiv, y, s_.one_like(y, int64_t{1} << shift));
    y = s_.binary(Binary::kMinimum, y, s_.one_like(y, INT16_MAX));
    give(0, s_.binary(Binary::kMaximum, y, s_.one_like(y, INT16_MIN)));
  }

  // Converts SignalFftAutoScale: y = int16(2^bits x), computed as the high half of 2^(16 + bits) x.
  void auto_scale() {
    const ValueId x = numbers(0), bits = step(Signal::kHeadroom, {x}, {});
    if (s_.dims(x).size() != 1) importer_.unsupported(op_, "numbers of several rows");
    const ValueId high = s_.binary(Binary::kShiftLeft, x, s_(Op::kAdd, {bits, s_.one_like(bits, 16)}));
    give(0, s_.binary(Binary::kFloorDiv, high, s_.one_like(high, 1 << 16)));
    give(1, s_.reshape(bits, {}));
  }

  void transform() {
    const Options options(importer_, op_);
    if (options("T", 0, INT32_MAX) != int64_t(TensorType::INT16))
      importer_.unsupported(op_, "a transform of other numbers than int16");
    const int64_t size = options("fft_length", Signal::kLeastSize, Signal::kMostSize);
    const ValueId x = numbers(0);
    if ((size & (size - 1)) != 0) importer_.unsupported(op_, "a transform of " + std::to_string(size) + " numbers");
    if (s_.dims(x).empty() || s_.dims(x).back() > size) importer_.bad(op_, "is shorter than what it transforms");
    Ints turns;
    for (int64_t i = 0; i < size / 4 * 3; ++i) {
      const double angle = 2 * std::numbers::pi * double(i) / double(size);
      const auto code = [](double v) { return uint32_t(int32_t(std::floor(0.5 + INT16_MAX * v))) & 0xFFFF; };
      turns.push_back(int32_t(code(std::cos(angle)) | code(-std::sin(angle)) << 16));
    }
    give(0, step(Signal::kFft, {x, constant(turns)}, {{"size", int(size)}}));
  }

  // Converts SignalEnergy: re^2 + im^2 of every bin. The options that limit the bins are not read.
  void energy() {
    const ValueId x = numbers(0);
    const Ints& dims = s_.dims(x);
    if (dims.empty() || dims.back() % 2 != 0) importer_.bad(op_, "its input is no list of complex numbers");
    const int axis = int(dims.size()) - 1;
    const int64_t bins = dims.back() / 2;
    const auto squares = [&](int64_t first) {
      const ValueId part = s_.slice(x, axis, first, bins, 2);
      return s_(Op::kMul, {part, part});
    };
    const ValueId re = squares(0);
    give(0, s_(Op::kAdd, {re, squares(1)}));
  }

  // Records the sums, which square_root() makes together with their roots. The energy of a bin goes into two channels:
  // i with its weight, i + 1 with the rest. The first channel of the file gets only weights and is dropped.
  void filter_bank() {
    const int64_t channels = Options(importer_, op_)("num_channels", 1, INT16_MAX);
    const ValueId x = numbers(0);
    const Ints weights[] = {table(1), table(2)}, bins = table(3), firsts = table(4), widths = table(5);
    if (s_.dims(x).size() != 1 || s_.dims(x)[0] > 1 << 16)
      importer_.unsupported(op_, "energies of several rows, or more than 65536");
    for (const Ints& list : {bins, firsts, widths})
      if (int64_t(list.size()) != channels + 1)
        importer_.bad(op_, "its tables have not a row for each channel and one more");
    if (std::ranges::any_of(widths, [](int64_t v) { return v < 0; }) ||
        std::accumulate(widths.begin(), widths.end(), int64_t{0}) > kMostWeights)
      importer_.unsupported(op_, "a channel of less than no bins, or more than 524288 weights");
    Ints entries;
    for (int64_t k = 0; k < channels; ++k)
      for (const bool own : {false, true}) {
        const auto row = size_t(own ? k + 1 : k);
        const Ints& w = weights[own ? 0 : 1];
        for (int64_t j = 0; j < widths[row]; ++j) {
          const int64_t bin = bins[row] + j, at = firsts[row] + j;
          if (bin < 0 || bin >= s_.dims(x)[0] || at < 0 || at >= int64_t(w.size()))
            importer_.bad(op_, "its tables point outside of its energies or its weights");
          if (w[size_t(at)] != 0) entries.insert(entries.end(), {bin | k << 16, w[size_t(at)]});
        }
      }
    if (entries.empty()) importer_.bad(op_, "all its weights are 0");
    const Ints dims = {int64_t(entries.size()) / 2, 2};
    importer_.scope().front_end.sums[op_.outputs[0]] = {x, s_.integers(ElementType::kInt32, dims, entries), channels};
  }

  void square_root() {
    const auto& all = importer_.scope().front_end.sums;
    const auto sums = all.find(op_.inputs[0]);  // convert_signal() has recorded them
    if (sums == all.end()) importer_.unsupported(op_, "numbers of 64 bits that no SignalFilterBank gives");
    const ValueId bits = s_.reshape(numbers(1), {1});
    give(0, step(Signal::kFilterBank, {sums->second.energies, sums->second.entries, bits},
                 {{"size", int(sums->second.channels)}}));
  }

  void spectral_subtraction() {
    const Options options(importer_, op_);
    const ValueId x = numbers(0);
    const auto word = [&](const char* name) { return options(name, 0, INT32_MAX); };
    const int64_t even[] = {word("smoothing"), word("one_minus_smoothing")};
    const int64_t odd[] = {word("alternate_smoothing"), word("alternate_one_minus_smoothing")};
    const int shift = int(options("smoothing_bits", 0, 31)), bits = int(options("spectral_subtraction_bits", 0, 63));
    if (s_.dims(x).size() != 1) importer_.unsupported(op_, "channels of several rows");
    Ints w;
    for (int64_t i = 0; i < s_.dims(x)[0]; ++i)
      for (const int64_t v : i % 2 == 0 ? even : odd) w.push_back(v);
    const ValueId before = importer_.variables().stream(op_.name + "/estimate", s_.dims(x));
    const ValueId table = s_.integers(ElementType::kInt32, {s_.dims(x)[0], 2}, w);
    const ValueId estimate = step(Signal::kNoise, {x, table, before},
                                  {{"shift", shift}, {"bits", bits}, {"factor", int(options("clamping", 0, 1))}});
    importer_.variables().store(estimate, before);
    give(0, step(Signal::kSubtract, {x, kNone, estimate},
                 {{"shift", shift}, {"bits", bits}, {"factor", int(word("min_signal_remaining"))}}));
    give(1, estimate);
  }

  void gain() {
    const int shift = int(Options(importer_, op_)("snr_shift", 0, 63));
    const ValueId x = numbers(0), noise = numbers(1);
    Ints w = table(2);
    if (w.size() < Signal::kGainTable) importer_.bad(op_, "its table has less than 125 numbers");
    if (s_.dims(x) != s_.dims(noise)) importer_.bad(op_, "its noise has another shape than its signal");
    w.resize(Signal::kGainTable);
    give(0, step(Signal::kGain, {x, constant(w), noise}, {{"shift", shift}}));
  }

  void logarithm() {
    const Options options(importer_, op_);
    const int shift = int(options("input_correction_bits", 0, 31)), scale = int(options("output_scale", 0, INT32_MAX));
    const ValueId x = numbers(0);
    Ints w;
    for (int i = 0; i < Signal::kLogTable; ++i)
      w.push_back(std::lround(65536 * (std::log2(1 + i / 128.0) - i / 128.0)));
    give(0, step(Signal::kLog, {x, constant(w)}, {{"shift", shift}, {"factor", scale}}));
  }

 private:
  static constexpr int64_t kMostWeights = 1 << 19;

  void give(size_t i, ValueId x) { define_signal(importer_, op_, i, x); }

  ValueId step(Signal::Function function, Steps::Ids inputs, std::vector<Steps::Word> words) {
    words.push_back({"function", int(function)});
    return s_(Op::kSignal, std::move(inputs), std::move(words));
  }

  // Returns input i as int32.
  ValueId numbers(size_t i) {
    const ValueId x = importer_.input(op_, i);
    const ElementType type = importer_.value(x).type;
    if (type != ElementType::kInt16 && type != ElementType::kInt32)
      importer_.unsupported(op_, importer_.value(x).name + ", which holds no plain integers");
    return s_.cast(x, ElementType::kInt32);
  }

  // Returns input i, a stored list of int16.
  Ints table(size_t i) {
    const Value& v = importer_.value(importer_.input(op_, i));
    if (!v.constant() || v.stored != ElementType::kInt16 || v.dims.size() != 1)
      importer_.unsupported(op_, v.name + ", which is no stored list of int16");
    Ints numbers;
    for (size_t j = 0; j + 1 < v.data->size(); j += 2) numbers.push_back(int16_t((*v.data)[j] | (*v.data)[j + 1] << 8));
    return numbers;
  }

  ValueId constant(const Ints& numbers) { return s_.integers(ElementType::kInt32, {int64_t(numbers.size())}, numbers); }

  Importer& importer_;
  Operation& op_;
  Steps s_;
};

struct Row {
  const char* name;
  void (SignalOperator::*convert)();
};
constexpr Row kRows[] = {
    {"SignalWindow", &SignalOperator::window},
    {"SignalFftAutoScale", &SignalOperator::auto_scale},
    {"SignalRfft", &SignalOperator::transform},
    {"SignalEnergy", &SignalOperator::energy},
    {"SignalFilterBank", &SignalOperator::filter_bank},
    {"SignalFilterBankSquareRoot", &SignalOperator::square_root},
    {"SignalFilterBankSpectralSubtraction", &SignalOperator::spectral_subtraction},
    {"SignalPCAN", &SignalOperator::gain},
    {"SignalFilterBankLog", &SignalOperator::logarithm},
};

// Converts an operator that reads numbers of the front end or makes them of others: shapes, and casts between int32 and
// uint32.
bool convert_beside(Importer& importer, Operation& op) {
  const auto is_uint32 = [&](int id) { return importer.tensors()[id].type() == TensorType::UINT32; };
  const bool reads = importer.scope().front_end.signals.contains(op.inputs[0]), writes = is_uint32(op.outputs[0]);
  if (!reads && !writes) return false;
  switch (op.code) {
    case BuiltinOperator::CAST:
      if (writes) {
        if (importer.value(importer.input(op, 0)).type != ElementType::kInt32)
          importer.unsupported(op, "a cast to uint32 of other numbers than int32");
        define_signal(importer, op, 0, importer.input(op, 0));
        return true;
      }
      if (is_uint32(op.inputs[0]) && importer.tensors().type(op.outputs[0]) != ElementType::kInt32)
        importer.unsupported(op, "a cast of uint32 to other numbers than int32");
      return false;  // converted as a cast of int32
    case BuiltinOperator::RESHAPE:
    case BuiltinOperator::SQUEEZE:
    case BuiltinOperator::EXPAND_DIMS: {
      const ValueId x = importer.input(op, 0);
      const Ints dims = importer.tensors().dims(op.outputs[0]);
      if (product_of(dims, 0, dims.size()) != importer.value(x).elements())
        importer.unsupported(op, "a shape that the file does not fix");
      op.layer = importer.graph().add_layer({op.name, op.code_name, {}});
      Steps s(importer, op);
      define_signal(importer, op, 0, s.reshape(x, dims));
      return true;
    }
    default: importer.unsupported(op, "arithmetic on numbers of the audio front end; a CAST makes int32 of them");
  }
}

}  // namespace

bool convert_signal(Importer& importer, Operation& op) {
  if (op.inputs.empty() || op.inputs[0] == kNone) return false;
  if (op.code != BuiltinOperator::CUSTOM) return convert_beside(importer, op);
  for (const Row& row : kRows) {
    if (op.code_name != std::string("CUSTOM ") + row.name) continue;
    SignalOperator signal(importer, op);
    (signal.*row.convert)();
    return true;
  }
  return false;
}

}  // namespace nacre::tools::tflite
