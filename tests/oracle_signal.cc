// The oracle of integer audio front ends, in 64 bits. Its transform is recursive; engine/ops/signal.h works in place.
#include <cmath>

#include "engine/ops/signal.h"
#include "tests/oracle_problem.h"

namespace nacre::test {
namespace {

using Numbers = std::vector<int64_t>;

struct Turned {
  int16_t re, im;
};
using Spectrum = std::vector<Turned>;

int16_t half_up(int64_t v) { return int16_t((v + (1 << 14)) >> 15); }
Turned over(Turned v, int p) { return {half_up(int64_t{v.re} * (32767 / p)), half_up(int64_t{v.im} * (32767 / p))}; }
Turned product(Turned v, int64_t w) {
  const int64_t c = int16_t(w), s = int16_t(w >> 16);
  return {half_up(v.re * c - v.im * s), half_up(v.re * s + v.im * c)};
}
Turned sum(std::initializer_list<Turned> list) {
  int re = 0, im = 0;
  for (const Turned& v : list) re += v.re, im += v.im;
  return {int16_t(re), int16_t(im)};
}
Turned minus(Turned v) { return {int16_t(-v.re), int16_t(-v.im)}; }

// Transforms x by p transforms of every p-th number. `turn` is the step in w for 1 / count of a full turn.
Spectrum transformed(const Spectrum& x, const Array& w) {
  const size_t count = x.size();
  if (count == 1) return x;
  const size_t p = count % 4 == 0 ? 4 : 2, m = count / p, turn = size_t(w.dims[0]) / 3 * 4 / count;
  Spectrum y(count);
  std::vector<Spectrum> parts;
  for (size_t q = 0; q < p; ++q) {
    Spectrum part;
    for (size_t i = q; i < count; i += p) part.push_back(x[i]);
    parts.push_back(transformed(part, w));
  }
  for (size_t j = 0; j < m; ++j) {
    std::vector<Turned> v = {over(parts[0][j], int(p))};
    for (size_t q = 1; q < p; ++q) v.push_back(product(over(parts[q][j], int(p)), w.integer(int64_t(q * j * turn))));
    if (p == 2) {
      y[j] = sum({v[0], v[1]});
      y[j + m] = sum({v[0], minus(v[1])});
      continue;
    }
    const auto turned = [](Turned z) { return Turned{z.im, int16_t(-z.re)}; };
    y[j] = sum({v[0], v[1], v[2], v[3]});
    y[j + m] = sum({v[0], minus(v[2]), turned(v[1]), minus(turned(v[3]))});
    y[j + 2 * m] = sum({v[0], minus(v[1]), v[2], minus(v[3])});
    y[j + 3 * m] = sum({v[0], minus(v[2]), minus(turned(v[1])), turned(v[3])});
  }
  return y;
}

Numbers real_transform(const Numbers& x, const Array& w, int size) {
  Spectrum pairs;
  const auto at = [&](int i) { return int16_t(size_t(i) < x.size() ? x[size_t(i)] : 0); };
  for (int i = 0; i < size; i += 2) pairs.push_back({at(i), at(i + 1)});
  const Spectrum z = transformed(pairs, w);
  const int count = size / 2;
  Numbers y(size_t(size) + 2);
  const auto set = [&](int k, int re, int im) { y[size_t(2 * k)] = re, y[size_t(2 * k + 1)] = im; };
  const Turned first = over(z[0], 2);
  set(0, int16_t(first.re + first.im), 0);
  set(count, int16_t(first.re - first.im), 0);
  for (int k = 1; k <= count / 2; ++k) {
    const Turned other = z[size_t(count - k)], a = over(z[size_t(k)], 2), b = over({other.re, int16_t(-other.im)}, 2),
                 e = sum({a, b}), o = product(sum({a, minus(b)}), w.integer(k + count / 2));
    set(k, (e.re + o.re) >> 1, (e.im + o.im) >> 1);
    set(count - k, (e.re - o.re) >> 1, (o.im - e.im) >> 1);
  }
  return y;
}

int bits_of(uint64_t v) { return v == 0 ? 0 : 1 + bits_of(v >> 1); }

int64_t root(uint64_t v) {
  auto y = uint64_t(std::sqrt((long double)v));  // long double's 64 bits hold v
  while (y * y > v || y > UINT32_MAX) --y;
  return int64_t(v - y * y > y && y != (v >> 32 == 0 ? UINT16_MAX : UINT32_MAX) ? y + 1 : y);
}

int64_t gain(int64_t x, uint32_t a, const Array& w, int shift) {
  int64_t g = w.integer(std::min<int64_t>(a, 2));
  if (const int top = bits_of(a); a > 2) {
    const int64_t first = 4 * top - 6, f = ((uint64_t{a} << 32 >> (top + 21)) & 0x3FF);
    g = w.integer(first) + ((((w.integer(first + 2) * f >> 5) + w.integer(first + 1) * 32) * f + (1 << 14)) >> 15);
  }
  const auto v = uint32_t(uint64_t(x) * uint32_t(int16_t(g)) >> shift);
  return v < 8192 ? v * v >> 20 : (v >> 6) - 64;
}

int64_t logarithm(uint32_t v, const Array& w, uint32_t factor) {
  if (v < 2) return 0;
  const int whole = bits_of(v) - 1;
  const int64_t f = int64_t((uint64_t{v} << 16 >> whole) & 0xFFFF), s = f / 512;
  const int64_t part = f + w.integer(s) + ((w.integer(s + 1) - w.integer(s)) * (f % 512) >> 16);
  const int64_t natural = (45426 * (int64_t{whole} * 65536 + part) + 32768) >> 16;
  return std::min<int64_t>(INT16_MAX, uint32_t(factor * natural + 32768) >> 16);
}

int64_t of_one(const Problem& p, int64_t e) {
  const int shift = p.word(Signal::kShift), bits = p.word(Signal::kBits);
  const auto factor = uint64_t(p.word(Signal::kFactor));
  const auto v = uint32_t(p.in[0].integer(e)), scaled = uint32_t(uint64_t{v} << shift);
  const uint32_t a = p.has(2) ? uint32_t(p.in[2].integer(e)) : 0;
  switch (p.word(0)) {
    case Signal::kNoise: {
      const int64_t i = 2 * (e % p.in[0].dims.back());
      const auto y = uint32_t(
          (uint64_t{scaled} * uint64_t(p.in[1].integer(i)) + uint64_t{a} * uint64_t(p.in[1].integer(i + 1))) >> bits);
      return factor == 1 ? std::min(y, scaled) : y;
    }
    case Signal::kSubtract: return std::max((scaled - std::min(scaled, a)) >> shift, uint32_t(v * factor >> bits));
    case Signal::kGain: return gain(v, a, p.in[1], shift);
    default: return logarithm(scaled, p.in[1], uint32_t(factor));
  }
}

Numbers of_row(const Problem& p, int64_t r, const Numbers& x) {
  if (p.word(0) == Signal::kFft) return real_transform(x, p.in[1], p.word(Signal::kSize));
  if (p.word(0) == Signal::kHeadroom) {
    int most = 0;
    for (const int64_t v : x) most = std::max(most, std::abs(int{int16_t(v)}));
    return {std::max(0, 15 - bits_of(uint64_t(most)))};
  }
  Numbers y;
  const int64_t down = p.in[2].integer(r);
  for (int k = 0; k < p.word(Signal::kSize); ++k) {
    uint64_t total = 0;
    for (int e = 0; e < p.in[1].dims[0]; ++e)
      if (const int64_t at = p.in[1].integer(2 * e); at >> 16 == k)
        total += uint64_t(p.in[1].integer(2 * e + 1)) * uint32_t(x[size_t(at & 0xFFFF)]);
    y.push_back(down < 0 || down > 31 ? 0 : root(total) >> down);
  }
  return y;
}

}  // namespace

std::vector<Expected> signal(const Problem& p) {
  Index dims = p.in[0].dims;
  const int64_t n = dims.back(), rows = count_of(dims) / n;
  Numbers all;
  if (p.word(0) >= int(Signal::kNoise)) {
    for (int64_t e = 0; e < count_of(dims); ++e) all.push_back(of_one(p, e));
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      Numbers x;
      for (int64_t i = 0; i < n; ++i) x.push_back(p.in[0].integer(r * n + i));
      const Numbers y = of_row(p, r, x);
      all.insert(all.end(), y.begin(), y.end());
    }
    dims.back() = int32_t(int64_t(all.size()) / rows);
  }
  return {expect(dims, [&](const Index& i) -> Result { return {double(int32_t(all[size_t(offset(dims, i))])), 0}; })};
}

}  // namespace nacre::test
