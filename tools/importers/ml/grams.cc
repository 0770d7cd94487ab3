// Imports TfIdfVectorizer on integers. It counts how often each n-gram g of a pool occurs in a row of x [rows, length].
// The tokens g_1, g_2, .. of an n-gram stand d = 1 .. max_skip_count + 1 apart. Single tokens take d = 1 alone.
//
//   count_g = sum_d sum_t [x_t = g_1] [x_(t + d) = g_2] ..
//   y[index of g] = count_g (TF), w where count_g > 0 (IDF), or w count_g (TFIDF);  w: weight at that index, or 1
#include <algorithm>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

class Grams {
 public:
  Grams(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void run() {
    read();
    std::vector<Term> counts;
    Ints column(size_t(width_), -1);  // column of `counts` for each index
    int64_t columns = 0;
    for (size_t i = 0; i < starts_.size(); ++i) {
      const auto n = int64_t(i) + 1;
      const int64_t end = i + 1 < starts_.size() ? starts_[i + 1] : int64_t(pool_.size());
      const int64_t grams = (end - starts_[i]) / n, first = grams_;
      grams_ += grams;
      if (grams == 0 || n < shortest_ || n > longest_) continue;
      if (grams_ > int64_t(indices_.size())) source_.malformed("has fewer indices than n-grams");
      for (int64_t g = 0; g < grams; ++g) {
        int64_t& at = column[size_t(indices_[size_t(first + g)])];
        if (at >= 0) source_.refuse("gives two n-grams one index");
        at = columns + g;
      }
      counts.push_back(counts_of({pool_.begin() + starts_[i], pool_.begin() + starts_[i] + grams * n}, n, grams));
      columns += grams;
    }
    counts.push_back(f_.filled({rows_, 1}, 0));  // for an index that no n-gram has
    std::ranges::replace(column, -1, columns);
    const Term all = counts.size() == 1 ? counts[0] : f_("Concat", counts, {{"axis", int64_t{1}}});
    Term y = f_("Gather", {all, f_.list(column)}, {{"axis", int64_t{1}}});
    if (mode_ == "IDF") y = f_.to_real(f_("Greater", {y, f_.number(0)}));
    if (mode_ != "TF" && !weights_.empty()) y = f_("Mul", {y, f_.numbers({width_}, weights_)});
    f_.give(source_.operand(0)->rank() == 1 ? f_.reshape(y, {width_}) : y);
    f_.run();
  }

 private:
  void read() {
    constexpr int64_t kMostSpan = 256;  // largest product of length and distance; the formula writes out each of them
    const OperandPtr& x = source_.operand(0);
    if (!is_whole(x->type) || x->rank() < 1 || x->rank() > 2)
      source_.refuse("counts other things than rows of int32 or int64 tokens");
    rows_ = x->rank() == 2 ? x->dims[0] : 1;
    length_ = x->dims.back();
    mode_ = source_.text("mode", "");
    if (mode_ != "TF" && mode_ != "IDF" && mode_ != "TFIDF") source_.malformed("mode is " + mode_);
    shortest_ = source_.integer("min_gram_length", 1), longest_ = source_.integer("max_gram_length", 1);
    skips_ = source_.integer("max_skip_count", 0);
    starts_ = source_.integers("ngram_counts");
    pool_ = source_.integers("pool_int64s");
    indices_ = source_.integers("ngram_indexes");
    if (shortest_ < 1 || longest_ < shortest_ || skips_ < 0) source_.malformed("its lengths are out of range");
    if (longest_ > kMostSpan || skips_ >= kMostSpan || longest_ * (skips_ + 1) > kMostSpan)
      source_.refuse("has more than 256 lengths times distances");
    for (size_t i = 0; i < starts_.size(); ++i) {
      const int64_t end = i + 1 < starts_.size() ? starts_[i + 1] : int64_t(pool_.size());
      if (starts_[i] < 0 || end < starts_[i] || end > int64_t(pool_.size()) || (end - starts_[i]) % int64_t(i + 1) != 0)
        source_.malformed("its ngram_counts do not fit its pool");
    }
    constexpr int64_t kMostColumns = 1 << 24;
    for (const int64_t index : indices_) {
      if (index < 0 || index >= kMostColumns) source_.malformed("an index is out of range");
      width_ = std::max(width_, index + 1);
    }
    if (width_ == 0) source_.malformed("has no indices");
    if (const ::onnx::AttributeProto* weights = source_.find("weights"))
      weights_ = {weights->floats().begin(), weights->floats().end()};
    if (!weights_.empty() && int64_t(weights_.size()) != width_)
      source_.malformed("its weights do not fit its indices");
  }

  // Returns the counts [rows, grams] of `grams` n-grams of n tokens, which stand in `tokens` one after the other.
  Term counts_of(const Ints& tokens, int64_t n, int64_t grams) {
    const ElementType type = source_.operand(0)->type;
    const Term x = f_.reshape(f_.input(0), {rows_, length_});
    std::vector<Term> wanted;
    for (int64_t k = 0; k < n; ++k) {
      Ints of_place;
      for (int64_t g = 0; g < grams; ++g) of_place.push_back(tokens[size_t(g * n + k)]);
      wanted.push_back(f_.whole(type, {grams}, of_place));
    }
    Term sum;
    for (int64_t d = 1; d <= (n == 1 ? 1 : skips_ + 1); ++d) {
      const int64_t places = length_ - d * (n - 1);
      if (places < 1) break;
      Term hits;
      for (int64_t k = 0; k < n; ++k) {
        const Term token = f_.reshape(f_.slice(x, 1, k * d, k * d + places), {rows_, places, 1});
        const Term hit = f_.to_real(f_("Equal", {token, wanted[size_t(k)]}));
        hits = k == 0 ? hit : f_("Mul", {hits, hit});
      }
      const Term found = f_.reduce("ReduceSum", hits, {1}, false);
      sum = sum.empty() ? found : f_("Add", {sum, found});
    }
    return sum.empty() ? f_.filled({rows_, grams}, 0) : sum;
  }

  const Source& source_;
  Formula f_;
  std::string mode_;
  Ints starts_, pool_, indices_;
  std::vector<float> weights_;
  int64_t rows_ = 1, length_ = 0, shortest_ = 1, longest_ = 1, skips_ = 0, width_ = 0;
  int64_t grams_ = 0;  // number of n-grams of the pool read so far
};

void count_grams(Import& import, const Source& source) { Grams(import, source).run(); }

constexpr OperatorImporter kGramImporters[] = {{"TfIdfVectorizer", count_grams}};

}  // namespace

std::span<const OperatorImporter> ml_grams_importers() { return kGramImporters; }

}  // namespace nacre::tools::onnx_import
