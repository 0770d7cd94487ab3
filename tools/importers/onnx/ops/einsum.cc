// Imports Einsum as transposes, sums and one product of matrices for each operand after the first.
//
//   a [batch, m, k], b [batch, k, n] -> y [batch, m, n]      y_bmn = sum_k a_bmk b_bkn
//
// An axis that both operands have is a batch axis if a later operand or the result still reads it. If nothing does,
// it is summed (k). The other axes are in m (those of a) and n (those of b). An axis that only one operand has and that
// nothing else reads is summed first. A label that stands twice in an operand takes the diagonal of its two axes.
#include <algorithm>
#include <cctype>
#include <map>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

class Einsum {
 public:
  Einsum(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void run() {
    parse();
    Part y = part(0);
    for (size_t i = 1; i < operands_.size(); ++i) y = product(y, part(i), i);
    y = summed(y, result_);
    if (y.labels.size() != result_.size()) source_.malformed("its result has an axis that no operand has");
    f_.give(ordered(y, result_));
    f_.run();
  }

 private:
  struct Part {
    Term x;
    std::string labels;  // one for each axis
  };

  // Parses "ij,jk->ik" into labels per operand and of the result. The axes of "..." get the labels '0' and on, from
  // the last axis. Without "->" the result has these labels and then, sorted, the letters that occur once.
  void parse() {
    std::string equation = source_.text("equation", "");
    equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
    const size_t arrow = equation.find("->");
    const std::string left = equation.substr(0, arrow) + ",";
    for (size_t begin = 0, comma; (comma = left.find(',', begin)) != std::string::npos; begin = comma + 1)
      operands_.push_back(left.substr(begin, comma - begin));
    if (operands_.size() != source_.inputs.size()) source_.malformed("its equation has another number of operands");
    std::map<char, int> count;
    size_t dots = 0;
    for (size_t i = 0; i < operands_.size(); ++i) dots = std::max(dots, read_operand(i));
    std::string letters;
    for (const std::string& labels : operands_)
      for (const char label : labels) ++count[label];
    for (const auto& [label, times] : count)
      if (std::isalpha(uint8_t(label)) != 0 && times == 1) letters += label;
    result_ = arrow == std::string::npos ? dot_labels(dots) + letters : with_dots(equation.substr(arrow + 2), dots);
    for (const char label : result_)
      if (!dims_.contains(label)) source_.malformed("its result has an axis that no operand has");
  }

  static std::string dot_labels(size_t count) {
    std::string labels;
    while (count > 0) labels += char('0' + --count);
    return labels;
  }

  std::string with_dots(std::string labels, size_t count) const {
    const size_t dots = labels.find("...");
    if (dots != std::string::npos) labels.replace(dots, 3, dot_labels(count));
    for (const char label : labels)
      if (std::isalnum(uint8_t(label)) == 0) source_.malformed("its equation has a character that is no label");
    return labels;
  }

  // Gives the axes of operand i labels. Returns how many axes "..." stands for.
  size_t read_operand(size_t i) {
    std::string& labels = operands_[i];
    const Ints& dims = source_.operand(int(i))->dims;
    const bool dots = labels.find("...") != std::string::npos;
    const size_t named = labels.size() - (dots ? 3 : 0);
    if (named > dims.size() || dims.size() - named > 9) source_.malformed("its equation does not fit its operands");
    labels = with_dots(labels, dims.size() - named);
    if (labels.size() != dims.size()) source_.malformed("its equation does not fit its operands");
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      int64_t& dim = dims_.emplace(labels[axis], dims[axis]).first->second;
      if (dim == 1) dim = dims[axis];
      if (dims[axis] != dim && dims[axis] != 1) source_.malformed("one label stands for axes of several sizes");
    }
    return dims.size() - named;
  }

  int64_t size_of(const std::string& labels) const {
    int64_t size = 1;
    for (const char label : labels) size *= dims_.at(label);
    return size;
  }

  Ints dims_of(const std::string& labels) const {
    Ints dims;
    for (const char label : labels) dims.push_back(dims_.at(label));
    return dims;
  }

  // Returns operand i with axes of size 1 repeated and diagonals taken.
  Part part(size_t i) {
    Part y{f_.input(int(i)), operands_[i]};
    if (source_.operand(int(i))->dims != dims_of(y.labels)) y.x = f_("Expand", {y.x, f_.list(dims_of(y.labels))});
    for (size_t axis = 0; axis < y.labels.size(); ++axis)
      while (y.labels.find(y.labels[axis], axis + 1) != std::string::npos) y = diagonal(y, y.labels[axis]);
    return y;
  }

  // Returns the diagonal of the two axes with one label. They become the last axis with n^2 elements, of which each n
  // + 1-st is taken.
  Part diagonal(const Part& y, char label) {
    const size_t first = y.labels.find(label), second = y.labels.find(label, first + 1);
    Ints perm;
    std::string rest;
    for (size_t axis = 0; axis < y.labels.size(); ++axis)
      if (axis != first && axis != second) perm.push_back(int64_t(axis)), rest += y.labels[axis];
    perm.insert(perm.end(), {int64_t(first), int64_t(second)});
    const int64_t n = dims_.at(label);
    Ints dims = dims_of(rest);
    dims.push_back(n * n);
    const Term flat = f_.reshape(f_.transpose(y.x, perm), dims);
    return {f_.slice(flat, int64_t(rest.size()), 0, n * n, n + 1), rest + label};
  }

  // Sums over the axes that are not in `kept`.
  Part summed(const Part& y, const std::string& kept) {
    Ints axes;
    std::string labels;
    for (size_t axis = 0; axis < y.labels.size(); ++axis)
      if (has(kept, y.labels[axis])) labels += y.labels[axis];
      else axes.push_back(int64_t(axis));
    return {axes.empty() ? y.x : f_.reduce("ReduceSum", y.x, axes, false), labels};
  }

  Term ordered(const Part& y, const std::string& labels) {
    if (y.labels == labels) return y.x;
    Ints perm;
    for (const char label : labels) perm.push_back(int64_t(y.labels.find(label)));
    return f_.transpose(y.x, perm);
  }

  // Returns the product of a and b. b is operand `index`, and later operands and the result may still read its axes.
  Part product(Part a, Part b, size_t index) {
    std::string later = result_;
    for (size_t i = index + 1; i < operands_.size(); ++i) later += operands_[i];
    a = summed(a, b.labels + later);
    b = summed(b, a.labels + later);
    std::string batch, inner, rows, columns;
    for (const char label : a.labels) (!has(b.labels, label) ? rows : has(later, label) ? batch : inner) += label;
    for (const char label : b.labels)
      if (!has(a.labels, label)) columns += label;
    const int64_t batches = size_of(batch), m = size_of(rows), n = size_of(columns), k = size_of(inner);
    const Term left = f_.reshape(ordered(a, batch + rows + inner), {batches, m, k});
    const Term right = f_.reshape(ordered(b, batch + inner + columns), {batches, k, n});
    const std::string labels = batch + rows + columns;
    return {f_.reshape(f_("MatMul", {left, right}), dims_of(labels)), labels};
  }

  const Source& source_;
  Formula f_;
  std::vector<std::string> operands_;  // labels of each
  std::string result_;
  std::map<char, int64_t> dims_;
};

void einsum(Import& import, const Source& source) { Einsum(import, source).run(); }

constexpr OperatorImporter kEinsumImporters[] = {{"Einsum", einsum}};

}  // namespace

std::span<const OperatorImporter> einsum_importers() { return kEinsumImporters; }

}  // namespace nacre::tools::onnx_import
