// Copies rows of a table by their index.
//
//   table [entries, width]   ids [..], integers   y [.., width]
//
//   y_i = table[ids_i]
//
// Backward: a row that was read several times gets the sum of its gradients:
//
//   dtable[ids_i] += dy_i
//
// Valid ids are [0, entries), or with `negative` [-entries, entries), where -1 is the last row (ONNX Gather). Other
// ids are refused at run time with Code::kIndex before anything is written.
#pragma once

#include <cstring>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Embedding {
  int entries, width, count;
  bool negative;

  enum Operand { kTable, kIds };

  static constexpr Embedding from(const Words& words, const Operands& operands) {
    return {.entries = operands[kTable][0],
            .width = operands[kTable][1],
            .count = operands[kIds].elements(),
            .negative = words[0] != 0};
  }

  template <class T, class I>
  constexpr Code forward(const T* table, const I* ids, T* y) const {
    NACRE_TRY_CODE(check(ids));
    if constexpr (kThreads) {
      each_independent(count, width, [&](int i, int j, int e) { y[e] = table[row(ids[i]) * width + j]; });
    } else {
      for (int i = 0; i < count; ++i)
        std::memcpy(y + i * width, table + row(ids[i]) * width, size_t(width) * sizeof(T));
    }
    return Code::kOk;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape table = operands[kTable], ids = operands[kIds];
    if (words[0] > 1) return Code::kAttribute;
    if (table.rank != 2 || ids.rank >= kMaxRank) return Code::kShapeRank;
    if (int64_t{ids.elements()} * table[1] > INT32_MAX) return Code::kOverflow;
    *y = dims_of(ids);
    y->push(table[1]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"negative"}};
  static constexpr const char* kInputs[] = {"table", "ids"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kEmbeddingGradient, .reads = kReads<gradient_of(0), input_of(1)>, .adds = true}};

 protected:
  template <class I>
  constexpr Code check(const I* ids) const {
    for (int i = 0; i < count; ++i)
      if (ids[i] >= entries || ids[i] < (negative ? -entries : 0)) return Code::kIndex;
    return Code::kOk;
  }
  template <class I>
  constexpr int row(I id) const {
    return int(id) < 0 ? int(id) + entries : int(id);
  }
};

struct EmbeddingGradient : Embedding {
  static constexpr EmbeddingGradient from(const Words& words, const Operands& operands) {
    return {{.entries = operands[2][0],
             .width = operands[2][1],
             .count = operands[1].elements(),
             .negative = words[0] != 0}};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(count)) * uint32_t(width); }

  template <class T, class I>
  constexpr Code forward(const T* dy, const I* ids, Update<typename Element<T>::Accumulator> dtable) const {
    using A = typename Element<T>::Accumulator;
    NACRE_TRY_CODE(check(ids));
    for (int run : independent((width - 1) / kColumns + 1)) {
      const int first = run * kColumns, columns = width - first < kColumns ? width - first : kColumns;
      for (int i = 0; i < count; ++i) {
        const T* d = dy + i * width + first;
        A* sum = dtable.data + row(ids[i]) * width + first;
        for (int j = 0; j < columns; ++j) sum[j] += A(d[j]);
      }
    }
    return Code::kOk;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape dy = operands[0], ids = operands[1], table = operands[2];
    if (words[0] > 1) return Code::kAttribute;
    if (table.rank != 2 || dy.rank != ids.rank + 1) return Code::kShapeRank;
    for (int i = 0; i < ids.rank; ++i)
      if (dy[i] != ids[i]) return Code::kShapeInput;
    return dy.last() == table[1] ? Code::kOk : Code::kShapeWeights;
  }

  static constexpr const char* kInputs[] = {"dy", "ids", "&dtable"};
};

inline constexpr OpRule kEmbeddingRule = {.op = Op::kEmbedding,
                                          .name = "embedding",
                                          .numerics = Numerics::kMove,
                                          .shapes = &Embedding::shapes,
                                          .attributes = Embedding::kAttributes,
                                          .inputs = Embedding::kInputs,
                                          .outputs = Embedding::kOutputs,
                                          .gradients = Embedding::kGradients,
                                          .parameters = 0b1};
inline constexpr OpRule kEmbeddingGradientRule = {.op = Op::kEmbeddingGradient,
                                                  .name = "embedding_gradient",
                                                  .numerics = Numerics::kReduction,
                                                  .shapes = &EmbeddingGradient::shapes,
                                                  .attributes = Embedding::kAttributes,
                                                  .inputs = EmbeddingGradient::kInputs,
                                                  .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
