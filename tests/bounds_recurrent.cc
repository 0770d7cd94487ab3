// Expected results of recurrent layers: lstm and gru forward, with all outputs of training, and backward; stream_lstm
// and svdf, with their states.
#include <algorithm>

#include "engine/ops/gru.h"
#include "tests/op_rows.h"

namespace nacre::test::bounds {
namespace {

struct Loop {
  const Problem& p;
  int batch, time, h;

  Bounded in(int slot, int64_t i) const { return {p.in[size_t(slot)].real(i), 0}; }
  // Rounds the number to the type of operand 0, in which the kernel stores it.
  Bounded kept(Bounded b) const {
    const ElementType type = p.in[0].element;
    return type == ElementType::kFloat32 ? b : Bounded{b.v, b.error + quantum(type, std::abs(b.v) + b.error) / 2};
  }
  // Returns row n of a state operand, or zeros if the operand is absent.
  List state(int slot, int n) const {
    List list(static_cast<size_t>(h));
    for (int j = 0; p.has(slot) && j < h; ++j) list[size_t(j)] = in(slot, n * h + j);
    return list;
  }
  // Returns first + sum_j w_row,j v_j + last.
  Bounded weighted(int w, int row, const List& v, Bounded first, Bounded last) const {
    List terms = {first, last};
    for (int j = 0; j < h; ++j) terms.push_back(in(w, row * h + j) * v[size_t(j)]);
    return total(terms);
  }
  // Returns sum_k w_{row + k, j} d_k.
  Bounded back(int w, int row, int j, const List& d) const {
    List terms;
    for (size_t k = 0; k < d.size(); ++k) terms.push_back(in(w, (row + int(k)) * h + j) * d[k]);
    return total(terms);
  }
};

void append(List& to, const List& more) { to.insert(to.end(), more.begin(), more.end()); }

Bounded sigmoid(Bounded v) { return exact(1) / (exact(1) + exp(-v)); }
// Bounds the slope by the one at v plus its largest change within v's error.
Bounded tanh(Bounded v) {
  const Real y = std::tanh(v.v), slope = (1 - y * y) + 2 * v.error;
  return rounded(y, slope * v.error, 3);
}
Bounded bent(Bounded gate) { return gate * (Bounded{1, 0} - gate); }

// The results of an LSTM that limits c to [-most, most] if most > 0, with the last h and c of all samples.
struct LstmResults {
  List y, gates, cells, h, c;
};
LstmResults run_lstm(const Problem& p, Real most) {
  const Loop loop = {p, p.in[0].dims[0], p.in[0].dims[1], p.in[1].dims[1]};
  const int h = loop.h;
  LstmResults results;
  for (int n = 0; n < loop.batch; ++n) {
    List previous = loop.state(3, n), cell = loop.state(4, n);
    for (int t = 0; t < loop.time; ++t) {
      List made, gate;
      for (int row = 0; row < 4 * h; ++row) {
        const Bounded x = loop.in(0, int64_t{n * loop.time + t} * 4 * h + row);
        const Bounded a = loop.weighted(1, row, previous, x, p.has(2) ? loop.in(2, row) : Bounded());
        gate.push_back(row / h == 2 ? tanh(a) : sigmoid(a));
      }
      for (size_t j = 0; j < size_t(h); ++j) {
        const auto of = [&](int k) { return gate[size_t(k * h) + j]; };
        cell[j] = of(1) * cell[j] + of(0) * of(2);
        if (most > 0) cell[j].v = std::clamp(cell[j].v, -most, most);
        made.push_back(loop.kept(of(3) * tanh(cell[j])));
      }
      previous = made;
      append(results.y, made);
      append(results.gates, gate);
      append(results.cells, cell);
    }
    append(results.h, previous);
    append(results.c, cell);
  }
  return results;
}

}  // namespace

Lists lstm(const Problem& p, const Index&) {
  const LstmResults results = run_lstm(p, 0);
  return {results.y, results.gates, results.cells};
}

Lists stream_lstm(const Problem& p, const Index&) {
  const LstmResults results = run_lstm(p, p.real_word(0));
  return {results.y, results.h, results.c};
}

Lists svdf(const Problem& p, const Index&) {
  const int batch = p.in[0].dims[0], filters = p.in[1].dims[0], memory = p.in[1].dims[1], rank = p.word(0) + 1;
  List s, y;
  for (int line = 0; line < batch * filters; ++line)
    for (int m = 0; m < memory; ++m)
      s.push_back(m + 1 < memory ? number(p, 3, int64_t{line} * memory + m + 1) : number(p, 0, line));
  for (int n = 0; n < batch; ++n)
    for (int u = 0; u < filters / rank; ++u) {
      List terms = {p.has(2) ? number(p, 2, u) : Bounded()};
      for (int i = 0; i < rank * memory; ++i) {
        const int64_t at = int64_t{u} * rank * memory + i;
        terms.push_back(number(p, 1, at) * s[size_t(int64_t{n} * filters * memory + at)]);
      }
      y.push_back(total(terms));
    }
  return {y, s};
}

Lists lstm_gradient(const Problem& p, const Index&) {
  enum Operand { kGates, kCells, kW, kC0, kDy };
  const Loop loop = {p, p.in[kCells].dims[0], p.in[kCells].dims[1], p.in[kCells].dims[2]};
  const int h = loop.h;
  List dx(size_t(p.in[kGates].elements())), dh0, dc0;
  for (int n = 0; n < loop.batch; ++n) {
    List dh(static_cast<size_t>(h)), dc(static_cast<size_t>(h));
    for (int t = loop.time - 1; t >= 0; --t) {
      const int64_t step = int64_t{n} * loop.time + t;
      List da(size_t(4 * h));
      for (int j = 0; j < h; ++j) {
        const auto gate = [&](int k) { return loop.in(kGates, (step * 4 + k) * h + j); };
        const Bounded i = gate(0), f = gate(1), g = gate(2), o = gate(3),
                      squashed = tanh(loop.in(kCells, step * h + j));
        const Bounded before = t > 0        ? loop.in(kCells, (step - 1) * h + j)
                               : p.has(kC0) ? loop.in(kC0, n * h + j)
                                            : Bounded();
        const Bounded d = loop.in(kDy, step * h + j) + dh[size_t(j)];
        const Bounded inner = d * o * (exact(1) - squashed * squashed) + dc[size_t(j)];
        const Bounded made[] = {inner * g * bent(i), inner * before * bent(f), inner * i * (exact(1) - g * g),
                                d * squashed * bent(o)};
        for (int k = 0; k < 4; ++k)
          dx[size_t((step * 4 + k) * h + j)] = made[k], da[size_t(k * h + j)] = loop.kept(made[k]);
        dc[size_t(j)] = inner * f;
      }
      for (int j = 0; j < h; ++j) dh[size_t(j)] = loop.back(kW, 0, j, da);
    }
    dh0.insert(dh0.end(), dh.begin(), dh.end());
    dc0.insert(dc0.end(), dc.begin(), dc.end());
  }
  return {dx, dh0, dc0};
}

Lists gru(const Problem& p, const Index&) {
  const Loop loop = {p, p.in[0].dims[0], p.in[0].dims[1], p.in[1].dims[1]};
  const int h = loop.h;
  const bool after = p.word(0) != 0;
  List y, gates;
  for (int n = 0; n < loop.batch; ++n) {
    List previous = loop.state(3, n);
    for (int t = 0; t < loop.time; ++t) {
      const auto x = [&](int row) { return loop.in(0, int64_t{n * loop.time + t} * 3 * h + row); };
      const auto bias = [&](int row) { return p.has(2) ? loop.in(2, row) : Bounded(); };
      const auto sum = [&](int row, const List& v, Bounded first) {
        return loop.weighted(1, row, v, first, bias(row));
      };
      List z, r, candidate, q, scaled, made;
      for (int j = 0; j < h; ++j) {
        z.push_back(sigmoid(sum(j, previous, x(j))));
        r.push_back(sigmoid(sum(h + j, previous, x(h + j))));
        scaled.push_back(r.back() * previous[size_t(j)]);
      }
      for (int j = 0; j < h; ++j) {
        const auto i = size_t(j);
        q.push_back(sum(2 * h + j, after ? previous : scaled, {}));
        candidate.push_back(tanh(x(2 * h + j) + (after ? r[i] * q[i] : q[i])));
        made.push_back(loop.kept((exact(1) - z[i]) * candidate[i] + z[i] * previous[i]));
      }
      previous = made;
      y.insert(y.end(), made.begin(), made.end());
      for (const List* gate : {&z, &r, &candidate, &q})
        if (after || gate != &q) gates.insert(gates.end(), gate->begin(), gate->end());
    }
  }
  return {y, gates};
}

Lists gru_gradient(const Problem& p, const Index&) {
  enum Operand { kGates, kY, kW, kH0, kDy };
  const Loop loop = {p, p.in[kY].dims[0], p.in[kY].dims[1], p.in[kY].dims[2]};
  const int h = loop.h;
  const bool after = p.word(0) != 0;
  List dx(size_t(p.in[kY].elements()) * 3), dh0;
  for (int n = 0; n < loop.batch; ++n) {
    List dh(static_cast<size_t>(h));
    for (int t = loop.time - 1; t >= 0; --t) {
      const int64_t step = int64_t{n} * loop.time + t;
      const auto gate = [&](int k, int j) { return loop.in(kGates, (step * Gru::saved(after) + k) * h + j); };
      const auto before = [&](int j) {
        return t > 0 ? loop.in(kY, (step - 1) * h + j) : p.has(kH0) ? loop.in(kH0, n * h + j) : Bounded();
      };
      const auto put = [&](int k, int j, Bounded v) {
        dx[size_t((step * 3 + k) * h + j)] = v;
        return loop.kept(v);
      };
      List of_n, dq, da(size_t(2 * h)), next;
      for (int j = 0; j < h; ++j) {
        const Bounded z = gate(0, j), c = gate(2, j), d = loop.in(kDy, step * h + j) + dh[size_t(j)];
        da[size_t(j)] = put(0, j, d * (before(j) - c) * bent(z));
        of_n.push_back(put(2, j, d * (exact(1) - z) * (exact(1) - c * c)));
        dq.push_back(after ? of_n.back() * gate(1, j) : of_n.back());
        next.push_back(d * z);
      }
      for (int j = 0; j < h; ++j) {
        const Bounded v = loop.back(kW, 2 * h, j, dq), r = gate(1, j);
        const Bounded slope = after ? of_n[size_t(j)] * gate(3, j) : v * before(j);
        da[size_t(h + j)] = put(1, j, bent(r) * slope);
        next[size_t(j)] = next[size_t(j)] + (after ? v : v * r);
      }
      for (int j = 0; j < h; ++j) dh[size_t(j)] = next[size_t(j)] + loop.back(kW, 0, j, da);
    }
    dh0.insert(dh0.end(), dh.begin(), dh.end());
  }
  return {dx, dh0};
}

}  // namespace nacre::test::bounds
