// Ops of integer training (policy int8/full) with --train-share. Masters move in every step (sgd_codes) and sum small
// changes. The codes that the network computes with are separate state. A step writes the codes of only a share of
// the channels. NUMERICS.md section 16. No step has a float instruction.
//
//   masters M int32 and codes c of one shape: `channels` along axis 0 or the last, `inner` elements i each
//   code(M) = clip(round(M / 2^bits)) as round_codes makes it
//
//   pending_codes   p_k = sum_i |code(M_ki) - c_ki| + ceil(|code(B_k) - b_k| / 2^7),   at most 2^32 - 1
//                   B, b [channels]: master and code of the channel's bias, if it has one. A change of 1 in a weight's
//                   code moves a sum by x - zero, in a bias's code by 1. p_k is 0 only if nothing is pending
//   write_codes     c_ki = code(M_ki) for the `count` channels with the largest p_k, the first of equal ones. Channels
//                   with p_k = 0 are not written
//
// A channel that waits is not lost: its masters keep the change, and p_k counts it again in the next step.
#pragma once

#include <bit>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"
#include "engine/ops/integer_gradient.h"

namespace nacre::inline NACRE_ISA {

template <class T>
constexpr T code_of_master(int32_t master, int bits) {
  const int32_t code = rounding_shift_right(master, bits);
  if constexpr (sizeof(T) == 1) return error_code(code);
  else return code;
}

// Addresses the elements of a channel: first(k), and `step` from each one to the next.
struct ChannelElements {
  int channels, inner, step;

  static constexpr ChannelElements of(Shape shape, bool last) {
    const int channels = last ? shape.last() : shape[0];
    return {channels, shape.elements() / channels, last ? channels : 1};
  }
  constexpr int first(int k) const { return step == 1 ? k * inner : k; }
};

struct PendingCodes {
  ChannelElements at;
  int bits, bias_bits;

  enum Word { kBits = 0, kBiasBits = 1, kChannelsLast = 2 };
  static constexpr int kBiasShift = 7, kBiasMask = (1 << kBiasShift) - 1;

  static constexpr PendingCodes from(const Words& words, const Operands& operands) {
    return {ChannelElements::of(operands[0], words[kChannelsLast] != 0), words.integer(kBits),
            words.integer(kBiasBits)};
  }

  constexpr uint64_t work() const { return uint64_t(at.channels) * uint64_t(at.inner); }

  constexpr void of_int8(const int32_t* master, const int8_t* code, Optional<const int32_t> bias_master,
                         Optional<const int32_t> bias_code, uint32_t* pending) const {
    count(master, code, bias_master, bias_code, pending);
  }
  constexpr void of_int32(const int32_t* master, const int32_t* code, Optional<const int32_t> bias_master,
                          Optional<const int32_t> bias_code, uint32_t* pending) const {
    count(master, code, bias_master, bias_code, pending);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* pending) {
    const Shape m = operands[0];
    if (words[kBits] > 31 || words[kBiasBits] > 31 || words[kChannelsLast] > 1) return Code::kAttribute;
    if (m.rank < 1) return Code::kShapeRank;
    if (!same(m, operands[1])) return Code::kShapeWeights;
    const int channels = words[kChannelsLast] == 0 ? m[0] : m.last();
    for (const int slot : {2, 3})
      if (operands.has(slot) != operands.has(2) || (operands.has(slot) && !is(operands, slot, channels)))
        return Code::kShapeBias;
    pending->push(channels);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"bits"}, {"bias_bits"}, {"channels_last"}};
  static constexpr const char* kInputs[] = {"master", "code", "bias_master?", "bias_code?"};
  static constexpr const char* kOutputs[] = {"pending"};

 private:
  template <class T>
  static constexpr uint32_t distance(int32_t master, int bits, T code) {
    const int64_t change = int64_t{code_of_master<T>(master, bits)} - code;
    return uint32_t(change < 0 ? -change : change);
  }

  template <class T>
  constexpr void count(const int32_t* master, const T* code, Optional<const int32_t> bias_master,
                       Optional<const int32_t> bias_code, uint32_t* pending) const {
    for (int k : independent(at.channels)) {
      const uint32_t behind = bias_master ? distance(bias_master[k], bias_bits, bias_code[k]) : 0;
      uint32_t sum = (behind >> kBiasShift) + ((behind & kBiasMask) != 0 ? 1 : 0);
      const int first = at.first(k);
      for (int i = 0; i < at.inner; ++i) {
        const uint32_t d = distance(master[first + i * at.step], bits, code[first + i * at.step]);
        sum = sum + d < sum ? UINT32_MAX : sum + d;
      }
      pending[k] = sum;
    }
  }
};

struct WriteCodes {
  ChannelElements at;
  int bits, count;

  enum Word { kBits = 0, kChannelsLast = 1, kCount = 2 };

  static constexpr WriteCodes from(const Words& words, const Operands& operands) {
    return {ChannelElements::of(operands[1], words[kChannelsLast] != 0), words.integer(kBits),
            words.integer(kCount) + 1};
  }

  // Returns the work. Up to 32 bounds are tried.
  constexpr uint64_t work() const { return uint64_t(at.channels) * uint64_t(at.inner + 32); }

  constexpr void to_int8(const uint32_t* pending, const int32_t* master, Update<int8_t> code) const {
    write(pending, master, code.data);
  }
  constexpr void to_int32(const uint32_t* pending, const int32_t* master, Update<int32_t> code) const {
    write(pending, master, code.data);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape m = operands[1];
    if (words[kBits] > 31 || words[kChannelsLast] > 1) return Code::kAttribute;
    if (m.rank < 1) return Code::kShapeRank;
    if (!same(m, operands[2])) return Code::kShapeWeights;
    const int channels = words[kChannelsLast] == 0 ? m[0] : m.last();
    if (words[kCount] >= uint32_t(channels)) return Code::kAttribute;
    return is(operands, 0, channels) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"bits"}, {"channels_last"}, {"count", Coding::kLessOne}};
  static constexpr const char* kInputs[] = {"pending", "master", "&code"};

 private:
  // The channels that are written: those with p_k above the bound, and those equal to it before index `end`.
  struct Chosen {
    uint32_t bound;
    int end;
  };

  // Chooses the bound: the largest number that at least `count` channels reach, found bit by bit. It is 0 if fewer
  // channels have a change.
  constexpr Chosen choose(const uint32_t* pending) const {
    uint32_t most = 0, bound = 0;
    for (int k = 0; k < at.channels; ++k) most = pending[k] > most ? pending[k] : most;
    for (int bit = int(std::bit_width(most)) - 1; bit >= 0; --bit) {
      const uint32_t higher = bound | uint32_t{1} << bit;
      if (reached_by(pending, higher) >= count) bound = higher;
    }
    if (bound == 0) return {0, 0};
    int equal = bound == UINT32_MAX ? count : count - reached_by(pending, bound + 1), end = 0;
    for (; equal > 0; ++end) equal -= pending[end] == bound ? 1 : 0;
    return {bound, end};
  }

  constexpr int reached_by(const uint32_t* pending, uint32_t bound) const {
    int n = 0;
    for (int k = 0; k < at.channels; ++k) n += pending[k] >= bound ? 1 : 0;
    return n;
  }

  template <class T>
  constexpr void write(const uint32_t* pending, const int32_t* master, T* code) const {
    const Chosen chosen = choose(pending);
    for (int k : independent(at.channels)) {
      if (pending[k] < chosen.bound || (pending[k] == chosen.bound && k >= chosen.end)) continue;
      const int first = at.first(k);
      for (int i = 0; i < at.inner; ++i)
        code[first + i * at.step] = code_of_master<T>(master[first + i * at.step], bits);
    }
  }
};

inline constexpr OpRule kPendingCodesRule = {.op = Op::kPendingCodes,
                                             .name = "pending_codes",
                                             .numerics = Numerics::kReduction,
                                             .shapes = &PendingCodes::shapes,
                                             .attributes = PendingCodes::kAttributes,
                                             .inputs = PendingCodes::kInputs,
                                             .outputs = PendingCodes::kOutputs};
inline constexpr OpRule kWriteCodesRule = {.op = Op::kWriteCodes,
                                           .name = "write_codes",
                                           .numerics = Numerics::kPointwise,
                                           .shapes = &WriteCodes::shapes,
                                           .attributes = WriteCodes::kAttributes,
                                           .inputs = WriteCodes::kInputs,
                                           .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
