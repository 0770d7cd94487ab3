#include "tools/evaluate/gpu_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {
namespace {

// Smaller gains are within the noise of the estimate.
constexpr double kWorthwhile = 1.1, kWorthFloat8 = 1.2;

std::string type_text(ElementType type) { return type == ElementType::kFloat8E4M3 ? "float8" : name_of(type); }
std::string us_text(double us) { return fmt::format("{:.{}f} us", us, us < 100 ? 1 : 0); }

int64_t rounded_up(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

class Adviser {
 public:
  Adviser(GpuLayer& layer, const GpuEstimate& estimate)
      : layer_(layer), estimate_(estimate), half_(type_text(half_type(*estimate.gpu))) {}

  void run() {
    layer_.padded = layer_.product;
    const ElementType type = layer_.form ? layer_.form->type : layer_.policy.compute;
    if (has_tensor_cores(*estimate_.gpu, type)) {
      compare_float8(type);
      check_counts(type);
    } else if (leave_type(type)) {
      check_counts(half_type(*estimate_.gpu));
    }
  }

 private:
  // Advises 16 bits for a type without Tensor Cores; for float32 only if it gains enough. Returns whether it did.
  bool leave_type(ElementType type) {
    const bool gains = layer_.form && layer_.policy_us >= kWorthwhile * layer_.half_us;
    if (type == ElementType::kFloat32 && !gains) return false;
    const char* since = "";
    if (type == ElementType::kFloat8E4M3) since = " before cuda/sm89";
    if (type == ElementType::kBfloat16) since = " before cuda/sm80";
    say(fmt::format("{} has no Tensor Cores{}: {} {}", type_text(type), since, half_policy(),
                    gains ? fmt::format("takes {} instead of {}", us_text(layer_.half_us), us_text(layer_.policy_us))
                          : "has them"));
    return true;
  }

  // Returns the name of the layer's policy with 16-bit computation.
  std::string half_policy() const {
    Policy policy = layer_.policy;
    policy.compute = policy.output = half_type(*estimate_.gpu);
    policy.loss_scale = policy.compute == ElementType::kFloat16 ? LossScale::kDynamic : LossScale::kNone;
    const bool is_float8 = layer_.form && layer_.form->type == ElementType::kFloat8E4M3;
    return policy_name(is_float8
                           ? Policy{.compute = policy.compute, .output = policy.output, .loss_scale = policy.loss_scale}
                           : policy);
  }

  void compare_float8(ElementType type) {
    if (estimate_.gpu->float8 == 0) return;
    const bool is_float8 = type == ElementType::kFloat8E4M3;
    if (is_float8 && layer_.float8_is_slower())
      say(fmt::format("float8 is slower than {}, {} instead of {}: its products are too small to pay for quantizing",
                      half_, us_text(layer_.float8_us), us_text(layer_.half_us)));
    if (type == half_type(*estimate_.gpu) && layer_.half_us >= kWorthFloat8 * layer_.float8_us)
      say(fmt::format("float8 takes {} instead of {}", us_text(layer_.float8_us), us_text(layer_.half_us)));
  }

  void check_counts(ElementType type) {
    Product& p = layer_.padded;
    const int64_t multiple = element_bits(type) == 8 ? 16 : 8;
    const Count to_feature = {multiple, true, type}, to_multiple = {multiple, false, type};
    if (layer_.op == Op::kBatchedMatmul) {
      pad(p.m, "row", to_feature);
      pad(p.n, "column", to_feature);
      pad(p.k, "term", to_feature);
      return;
    }
    pad(p.n, "feature", to_feature, estimate_.trains ? "" : ", or convert with " + option("pad-features"));
    pad(p.k, p.gathers ? "window term" : "input", p.gathers ? to_multiple : to_feature);
    // The gradient of w is a sum over rows; cuBLASLt's int8 kernels take rows by 32.
    if (type == ElementType::kInt8) pad(p.m, "row", {32, false, type});
    else if (estimate_.trains) pad(p.m, "row", to_multiple);
  }

  // A multiple that a count of rows, features or terms should be.
  struct Count {
    int64_t multiple;
    bool power_of_two;  // a count below 256 should be a power of two: padded_features()
    ElementType type;
  };
  void pad(int64_t& count, const char* noun, const Count& wanted, const std::string& or_else = "") {
    if (count % wanted.multiple == 0) return;
    const int64_t padded =
        wanted.power_of_two ? padded_features(count, wanted.multiple) : rounded_up(count, wanted.multiple);
    say(fmt::format("{} {} no multiple of {}, as Tensor Cores take {}: pad to {}{}", counted(uint64_t(count), noun),
                    count == 1 ? "is" : "are", wanted.multiple, type_text(wanted.type), padded, or_else));
    count = padded;
  }

  void say(std::string sentence) { layer_.advice.push_back(std::move(sentence)); }

  GpuLayer& layer_;
  const GpuEstimate& estimate_;
  const std::string half_;
};

}  // namespace

void advise(const GpuEstimate& estimate, GpuLayer* layer) { Adviser(*layer, estimate).run(); }

std::string gpu_verdict(const GpuEstimate& e) {
  const char* const work = e.trains ? "a training step" : "a run";
  return fmt::format(
      "{}: {:.1f} M operations; {} of {} takes about {} on one core of the host and {} on the GPU, {} of "
      "them to launch and to copy",
      e.on_host() ? "host" : "GPU", e.operations / 1e6, work, counted(e.batch, "row"), us_text(e.host_us),
      us_text(e.gpu_us), us_text(e.copies_us));
}

int64_t padded_features(int64_t count, int64_t multiple) {
  if (count >= 256) return rounded_up(count, multiple);
  return std::max(multiple, int64_t(std::bit_ceil(uint64_t(count))));
}

}  // namespace nacre::tools
