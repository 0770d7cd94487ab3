// Converts spectra of sequences: STFTSpectrogram, whose windowed sines and cosines are variables, and MelSpectrogram.
//
//   a = sum_n x_{t s + n} w_n cos(2 pi k n / N)   b likewise with -sin; frame t, stride s, bin k, window w, length N
//   magnitude sqrt(max(a^2 + b^2, 10^-7))   log: its ln   psd: a^2 + b^2, doubled except in the first and last bin
//   mel  |X|^mag_exp times triangles at equal distances in mel = 1127 ln(1 + f / 700); with power_to_db 10 log10 of it,
//        not lower than top_db below the largest value of all
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/window.h"

namespace nacre::tools::keras {
namespace {

constexpr float kEpsilon = 1e-7f;  // keras.config.epsilon()

ValueId squares(const Call& call, ValueId a, ValueId b) {
  return call.emit(Op::kAdd, {call.unary(Unary::kSquare, a), call.unary(Unary::kSquare, b)});
}

// Returns the bins [batch, channels, steps, bins] of x [batch, steps, channels], or of x with channels first.
ValueId transformed(const Call& call, ValueId x, bool channels_last, StoredKernel kernel) {
  if (channels_last) x = call.transpose(x, {0, 2, 1});
  const std::vector<int64_t> d = call.dims(x);
  const int64_t frame = call.integer("frame_length", 256), step = call.integer("frame_step", frame / 2);
  const ValueId lines = call.reshape(x, {d[0] * d[1], d[2], 1});
  const ValueId y = convolved(call, lines, kernel, kNone, {{frame}, {step}, {1}, call.text("padding", "valid")});
  return call.reshape(y, {d[0], d[1], call.dims(y)[1], call.dims(y)[2]});
}

ValueId spectrum(const Call& call, const std::string& mode, ValueId a, ValueId b) {
  if (mode == "stft") return call.concat({a, b}, 3);
  const ValueId power = squares(call, a, b);
  if (mode == "psd") {
    const int64_t bins = call.dims(power)[3];
    if (bins < 3) call.unsupported("a psd of less than three bins");
    return call.emit(Op::kAdd, {power, call.pad(call.slice(power, 3, 1, bins - 2), {0, 0, 0, 1}, {0, 0, 0, 1})});
  }
  const ValueId magnitude = call.unary(Unary::kSqrt, call.clamp(power, kEpsilon, kInfinity));
  if (mode == "magnitude") return magnitude;
  if (mode != "log") call.unsupported("mode " + mode);
  return call.unary(Unary::kLog, call.clamp(magnitude, kEpsilon, kInfinity));
}

void convert_stft(Call& call) {
  const ValueId x = call.input();
  if (call.rank(x) != 3) call.bad("an input of shape " + dims_text(call.dims(x)));
  const bool last = call.text("data_format", "channels_last") == "channels_last";
  const std::string mode = call.text("mode", "log");
  ValueId y = kNone;
  if (mode == "real" || mode == "imag") {
    y = transformed(call, x, last, {0, "kernel"});
  } else {
    const ValueId a = transformed(call, x, last, {0, "real_kernel"}),
                  b = transformed(call, x, last, {1, "imag_kernel"});
    y = spectrum(call, mode, a, b);
  }
  const std::vector<int64_t> d = call.dims(y);  // [batch, channels, steps, bins]
  if (call.flag("expand_dims", false)) call.outputs = {last ? call.transpose(y, {0, 2, 3, 1}) : y};
  else if (last) call.outputs = {call.reshape(call.transpose(y, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]})};
  else call.outputs = {call.reshape(call.transpose(y, {0, 1, 3, 2}), {d[0], d[1] * d[3], d[2]})};
}

struct Frames {
  int64_t length, step, window;  // length of the transform, distance of frames, length of the window in its middle
  int64_t bins() const { return length / 2 + 1; }
};

double window_at(const std::string& kind, int64_t n, int64_t size) {
  const double c = std::cos(2 * std::numbers::pi * double(n) / double(size));
  if (kind == "hamming") return 0.54 - 0.46 * c;
  return kind == "hann" ? 0.5 - 0.5 * c : 1;
}

// Returns [2 bins, 1, length, 1]: cosines, then negative sines, each times the window.
std::vector<float> fourier(const Frames& f, const std::string& kind) {
  std::vector<float> kernel(size_t(2 * f.bins() * f.length), 0);
  const int64_t before = (f.length - f.window) / 2;
  for (int64_t k = 0; k < f.bins(); ++k)
    for (int64_t n = 0; n < f.window; ++n) {
      const int64_t at = before + n;
      const double angle = 2 * std::numbers::pi * double(k * at % f.length) / double(f.length);
      const double w = window_at(kind, n, f.window);
      kernel[size_t(k * f.length + at)] = float(w * std::cos(angle));
      kernel[size_t((f.bins() + k) * f.length + at)] = float(-w * std::sin(angle));
    }
  return kernel;
}

// Returns the weights [bands, bins] of the mel triangles.
std::vector<float> triangles(const Call& call, int64_t bands, int64_t bins) {
  const auto mel = [](double hertz) { return 1127 * std::log(1 + hertz / 700); };
  const double rate = call.real("sampling_rate", 16000), low = mel(call.real("min_freq", 20));
  const double step = (mel(call.real("max_freq", float(rate / 2))) - low) / double(bands + 1);
  std::vector<float> weights(size_t(bands * bins), 0);
  for (int64_t band = 0; band < bands; ++band)
    for (int64_t k = 1; k < bins; ++k) {
      const double at = (mel(rate / 2 * double(k) / double(bins - 1)) - low) / step - double(band);
      weights[size_t(band * bins + k)] = float(std::max(0.0, std::min(at, 2 - at)));
    }
  return weights;
}

// Extends x at both ends by its mirror image, without the end samples themselves.
ValueId mirrored(const Call& call, ValueId x, int64_t more) {
  const int64_t time = call.dims(x)[1];
  if (more >= time) call.bad("a sequence of " + std::to_string(time) + " samples, shorter than half a frame");
  if (more == 0) return x;
  return call.concat({call.slice(x, 1, more, more, -1), x, call.slice(x, 1, time - 2, more, -1)}, 1);
}

ValueId decibels(const Call& call, ValueId x) {
  const float least = call.real("min_power", 1e-10f), tenth = 10 / std::numbers::ln10_v<float>;
  const float reference = std::max(std::abs(call.real("ref_power", 1)), least);
  const ValueId logs = call.scaled(call.unary(Unary::kLog, call.clamp(x, least, kInfinity)), tenth);
  const ValueId y = call.shifted(logs, -10 * std::log10(reference));
  const ValueId most = call.reduce(Reduce::kMax, y, {0, 1, 2}, true);
  return call.binary(Binary::kMaximum, y, call.shifted(most, -call.real("top_db", 80)));
}

void convert_mel(Call& call) {
  ValueId x = call.input();
  if (call.rank(x) != 2) call.bad("an input of shape " + dims_text(call.dims(x)));
  constexpr int64_t kMostLength = 1 << 14;
  const int64_t length = call.integer("fft_length", 2048);
  const Frames f = {length, call.integer("sequence_stride", 512), call.integer("sequence_length", length)};
  const int64_t bands = call.integer("num_mel_bins", 128);
  if (f.length < 2 || f.length > kMostLength || f.step < 1 || f.window < 1 || f.window > f.length || bands < 1 ||
      bands > kMostLength)
    call.unsupported("such frames");
  call.spend(2 * f.bins() * f.length + bands * f.bins());
  x = mirrored(call, x, f.length / 2);
  const std::vector<int64_t> d = call.dims(x);
  const ValueId kernel =
      call.constant("fourier", {2 * f.bins(), 1, f.length, 1}, fourier(f, call.text("window", "hann")));
  const ValueId parts = convolved_image(call, call.reshape(x, {d[0], 1, d[1], 1}), kernel, kNone,
                                        {{1, f.length}, {1, f.step}, {1, 1}, "valid"});
  const int64_t steps = call.dims(parts)[2];
  const ValueId lines = call.reshape(parts, {d[0], steps, 2 * f.bins()});
  const ValueId power = squares(call, call.slice(lines, 2, 0, f.bins()), call.slice(lines, 2, f.bins(), f.bins()));
  const float exponent = call.real("mag_exp", 2);
  ValueId y = exponent == 2 ? power : call.unary(Unary::kSqrt, power);
  if (exponent != 2 && exponent != 1) y = call.binary(Binary::kPow, y, call.number(exponent));
  y = call.emit(Op::kDense, {y, call.constant("triangles", {bands, f.bins()}, triangles(call, bands, f.bins()))});
  if (call.flag("power_to_db", true)) y = decibels(call, y);
  call.outputs = {call.transpose(y, {0, 2, 1})};
}

constexpr Converter kSignalRows[] = {
    {"STFTSpectrogram", &convert_stft},
    {"MelSpectrogram", &convert_mel},
};

}  // namespace

std::span<const Converter> signal_converters() { return kSignalRows; }

}  // namespace nacre::tools::keras
