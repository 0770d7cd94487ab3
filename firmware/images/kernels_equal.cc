// Compares products of ports/cortex_m (int8 dense, conv2d and depthwise_conv2d, float32 conv2d and its gradients) with
// the reference's. Sizes, codes and scales are random. Results must be equal to the bit, and int8 kernels must stay
// within their scratch. Prints `cases N`; the exit status is 0 if all are equal.
#include <cstring>

#include "firmware/board/print.h"
#include "firmware/images/host.h"
#include "ports/cortex_m/depthwise.h"
#include "ports/cortex_m/products.h"
#include "ports/cortex_m/real_products.h"

namespace nacre::firmware {
namespace {

constexpr int kCases = 400, kMostCodes = 8192, kMostReals = 2048, kMostChannels = 48, kGuard = 16;

int8_t x[kMostCodes], w[kMostCodes], expected[kMostCodes + kGuard], found[kMostCodes + kGuard];
int32_t bias[kMostChannels], scale[2 * kMostChannels];
alignas(8) uint8_t scratch[4 * kMostCodes];

struct Random {
  uint32_t state = 1;

  uint32_t next() { return state = state * 1664525 + 1013904223; }
  int upto(int most) { return int((next() >> 8) % uint32_t(most + 1)); }
  int between(int least, int most) { return least + upto(most - least); }
  void fill(int8_t* to, int count) {
    for (; count > 0; --count) *to++ = int8_t(next() >> 24);
  }
};

WindowAxis random_axis(Random& random, int most_kernel) {
  WindowAxis axis = {.in = random.between(1, 13),
                     .out = 0,
                     .kernel = random.between(1, most_kernel),
                     .stride = random.between(1, 3),
                     .dilation = random.upto(4) == 0 ? 2 : 1,
                     .before = 0};
  const int span = (axis.kernel - 1) * axis.dilation + 1;
  axis.before = random.upto(axis.kernel - 1);
  if (axis.before + axis.in < span) axis.in = span - axis.before;
  axis.out = (axis.before + axis.in + random.upto(axis.kernel - 1) - span) / axis.stride + 1;
  return axis;
}

// Makes pairs as converters do, and some of other kinds: {0, 0}, shifts to the left, multipliers below 2^30.
void random_scales(Random& random) {
  const bool odd_ones = random.upto(3) == 0;
  for (int k = 0; k < kMostChannels; ++k) {
    bias[k] = int32_t(random.next()) >> (random.upto(20) == 0 ? 0 : random.between(12, 24));
    int32_t* const pair = scale + 2 * k;
    pair[0] = int32_t(1u << 30 | random.next() >> 2), pair[1] = -random.between(5, 12);
    switch (odd_ones ? random.upto(8) : 9) {
      case 0: pair[0] = pair[1] = 0; break;
      case 1: pair[1] = random.between(-31, 3); break;
      case 2: pair[0] = int32_t(random.next() >> 3); break;
      case 3: pair[0] = int32_t(random.next() >> random.between(7, 16)), pair[1] = 0; break;
      default: break;
    }
  }
}

Epilogue random_epilogue(Random& random) {
  Clamp clamp = {Clamp::kNone, 0, 0};
  if (random.upto(2) == 0)
    clamp = {Clamp::kBounds, uint32_t(random.between(-128, 0)), uint32_t(random.between(1, 127))};
  return {.clamp = clamp, .y_zero = random.between(-128, 127), .per_channel = random.upto(2) != 0};
}

// Returns whether the kernel writes what the reference does, and nothing right after y or scratch. in_place: y is on x.
template <class Kernel, class Reference>
bool equal(const Kernel& kernel, const Reference& reference, Random& random, int outputs, bool in_place = false) {
  const Optional<const int32_t> b = {random.upto(3) == 0 ? nullptr : bias};
  random.fill(x, kMostCodes);
  random.fill(w, kMostCodes);
  random_scales(random);
  std::memset(expected, 0x55, sizeof expected);
  std::memset(found, 0x55, sizeof found);
  std::memset(scratch, 0xA5, sizeof scratch);
  reference.template forward_int8<Rounding::kDouble>(x, w, b, scale, expected);
  if (in_place) std::memcpy(found, x, size_t(outputs));
  kernel.run(in_place ? found : x, w, b, scale, found, {reinterpret_cast<cortex_m::Quad*>(scratch)});
  for (size_t i = kernel.scratch_bytes(); i < kernel.scratch_bytes() + kGuard; ++i)
    if (scratch[i] != 0xA5) return false;
  return std::memcmp(expected, found, size_t(outputs) + kGuard) == 0;
}

float real_x[kMostReals], real_w[kMostReals], real_y[kMostReals], other_y[kMostReals], real_bias[kMostChannels];

void fill(Random& random, float* to, int count) {
  for (; count > 0; --count) *to++ = float(int32_t(random.next())) * 0x1p-31f;
}

int outputs_of(const Conv2d& op) { return op.batch * op.window.h.out * op.window.w.out * op.out_c; }

// Returns a convolution whose operands have at most `most` elements. If the random one has more, batch is 0.
Conv2d random_convolution(Random& random, int most) {
  const int groups = random.upto(3) == 0 ? 2 : 1, group_in = random.between(1, 20);
  const int group_out = random.between(1, kMostChannels / groups);
  Conv2d op = {.batch = random.between(1, 2),
               .in_c = groups * group_in,
               .out_c = groups * group_out,
               .group_in = group_in,
               .group_out = group_out,
               .w_channel = 0,
               .w_column = group_in,
               .window = {},
               .x_zero = random.between(-128, 127),
               .epilogue = random_epilogue(random)};
  const int most_kernel = random.upto(2) == 0 ? 1 : 3;
  op.window = {random_axis(random, most_kernel), random_axis(random, most_kernel)};
  op.w_channel = op.window.h.kernel * op.window.w.kernel * group_in;
  const int inputs = op.batch * op.window.h.in * op.window.w.in * op.in_c;
  if (inputs > most || outputs_of(op) > most || op.w_channel * op.out_c > most) op.batch = 0;
  return op;
}

bool convolution(Random& random) {
  const Conv2d op = random_convolution(random, kMostCodes);
  return op.batch == 0 || equal(cortex_m::Convolution{op}, op, random, outputs_of(op));
}

// Compares float32 convolutions: the result, the gradient of the weights, which is added to a sum, and the gradient
// of x.
bool real_convolution(Random& random) {
  Conv2d op = random_convolution(random, kMostReals);
  if (op.batch == 0) return true;
  op.epilogue.clamp = {Clamp::kNone, 0, 0};
  const Optional<const float> b = {random.upto(3) == 0 ? nullptr : real_bias};
  for (float* const to : {real_x, real_w, real_y}) fill(random, to, kMostReals);
  fill(random, real_bias, kMostChannels);
  std::memcpy(other_y, real_y, sizeof other_y);
  op.forward<float>(real_x, real_w, b, real_y);
  cortex_m::RealConvolution{op}.run(real_x, real_w, b, other_y);
  if (std::memcmp(real_y, other_y, sizeof other_y) != 0) return false;
  std::memcpy(other_y, real_w, sizeof other_y);  // dw
  const Conv2dGradientW gradient = {{op}};
  gradient.forward<float>(real_y, real_x, {real_w});
  cortex_m::RealGradientW{gradient}.run(real_y, real_x, {other_y});
  if (std::memcmp(real_w, other_y, sizeof other_y) != 0) return false;
  const Conv2dGradientX back = {{op}};
  std::memcpy(other_y, real_x, sizeof other_y);  // dx
  back.forward<float>(real_y, real_w, real_x);
  cortex_m::RealGradientX{back}.run(real_y, real_w, other_y);
  return std::memcmp(real_x, other_y, sizeof other_y) == 0;
}

bool depthwise(Random& random) {
  const int channels = random.between(1, 21), most_kernel = random.upto(4) == 0 ? 1 : 5;
  DepthwiseConv2d op = {{.batch = random.between(1, 2),
                         .in_c = channels,
                         .out_c = channels,
                         .group_in = 1,
                         .group_out = 1,
                         .w_channel = 1,
                         .w_column = channels,
                         .window = {random_axis(random, most_kernel), random_axis(random, most_kernel)},
                         .x_zero = random.between(-128, 127),
                         .epilogue = random_epilogue(random)}};
  if (random.upto(4) == 0) op.window.w = {.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1, .before = 0};
  cortex_m::Depthwise kernel = {op};
  const int outputs = op.batch * op.window.h.out * op.window.w.out * channels;
  if (outputs > kMostCodes || op.window.w.out > op.window.w.in) return true;
  const bool one_size = op.window.h.in * op.window.w.in == op.window.h.out * op.window.w.out;
  return equal(kernel, op, random, outputs, one_size && random.upto(2) != 0);
}

bool dense(Random& random) {
  const Dense op = {.rows = random.between(1, 9),
                    .in = random.between(1, 90),
                    .out = random.between(1, kMostChannels),
                    .rows_per_batch = 1,
                    .x_zero = random.between(-128, 127),
                    .epilogue = random_epilogue(random)};
  return equal(cortex_m::FullyConnected{op}, op, random, op.rows * op.out);
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre::firmware;
  Random random;
  int wrong = 0;
  for (uint32_t i = 0; i < kCases; ++i) {
    const struct {
      const char* name;
      bool (*equal)(Random&);
    } kinds[] = {{"convolution", &convolution},
                 {"depthwise", &depthwise},
                 {"dense", &dense},
                 {"real_convolution", &real_convolution}};
    for (const auto& kind : kinds)
      if (!kind.equal(random)) report(kind.name, i), ++wrong;
  }
  report("cases", 4 * kCases);
  return wrong == 0 ? 0 : 1;
}
