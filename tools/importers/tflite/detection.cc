// Converts NON_MAX_SUPPRESSION_V4 and _V5, and the custom operator TFLite_Detection_PostProcess, which also decodes
// boxes (tensorflow/lite/kernels/non_max_suppression.cc, detection_postprocess.cc). Only a run knows how many
// detections there are. The rest of the output is 0.
#include <algorithm>
#include <cmath>
#include <optional>

#include "tools/importers/shared/flex_map.h"
#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

using DetectionInts = Steps::Ints;

struct Suppression {
  int64_t most;  // most boxes of each class
  float overlap, least, sigma;
  bool closed, at_least;
};

struct Selected {
  ValueId places, kept, count;  // outputs of the node, as in engine/ops/non_max_suppression.h
};

// Selects boxes [1, n, 4] by scores [1, classes, n].
Selected select_boxes(Importer& importer, Operation& op, ValueId boxes, ValueId scores, const Suppression& how) {
  const Selected y = {importer.between(boxes, "/places"), importer.between(boxes, "/kept"),
                      importer.between(boxes, "/count")};
  for (const ValueId of_integers : {y.places, y.count}) importer.value(of_integers).type = ElementType::kInt32;
  Node node{.op = Op::kNonMaxSuppression,
            .name = "",
            .words = {},
            .inputs = {boxes, scores},
            .outputs = {y.places, y.kept, y.count}};
  set_integer(node, "most", int(how.most));
  set_real(node, "overlap", how.overlap);
  set_real(node, "least", how.least);
  set_real(node, "sigma", how.sigma);
  set_integer(node, "closed", how.closed ? 1 : 0);
  set_integer(node, "at_least", how.at_least ? 1 : 0);
  importer.emit(op, std::move(node));
  return y;
}

void check_most(const Importer& importer, const Operation& op, int64_t most, const char* what) {
  constexpr int64_t kMost = 1 << 20;
  if (most < 1 || most > kMost) importer.bad(op, std::string(what) + " " + std::to_string(most));
}

float stored_real(Importer& importer, const Operation& op, size_t i, const char* what) {
  const ValueId id = importer.real_input(op, i);
  if (!importer.value(id).constant()) importer.unsupported(op, std::string(what) + " that is computed at run time");
  const std::vector<float> numbers = reals(importer.value(id));
  if (numbers.size() != 1 || std::isnan(numbers[0])) importer.bad(op, std::string(what) + " is not one number");
  return numbers[0];
}

void convert_non_max_suppression(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const bool soft = op.code == BuiltinOperator::NON_MAX_SUPPRESSION_V5;
  const ValueId boxes = importer.real_input(op, 0), scores = importer.real_input(op, 1);
  const DetectionInts most = importer.integers(op, 2), of_boxes = s.dims(boxes), of_scores = s.dims(scores);
  if (of_boxes.size() != 2 || of_boxes[1] != 4 || of_scores != DetectionInts{of_boxes[0]} || most.size() != 1)
    importer.bad(op, "boxes, scores or their greatest number do not fit");
  check_most(importer, op, most[0], "a greatest number of boxes of");
  const Suppression how = {.most = most[0],
                           .overlap = stored_real(importer, op, 3, "an overlap"),
                           .least = stored_real(importer, op, 4, "a least score"),
                           .sigma = soft ? stored_real(importer, op, 5, "a sigma") : 0,
                           .closed = true,
                           .at_least = false};
  const int64_t n = of_boxes[0];
  const Selected y = select_boxes(importer, op, s.reshape(boxes, {1, n, 4}), s.reshape(scores, {1, 1, n}), how);
  s.give(y.places);
  if (soft) s.give(y.kept, 1);
  const size_t last = soft ? 2 : 1;
  if (op.outputs.size() > last) s.give(s.reshape(y.count, {}), last);
}

// Converts TFLite_Detection_PostProcess: box_encodings [1, n, 4 or more], class_predictions [1, n, classes], or more
// columns with the background first, and anchors [n, 4] (y, x, h, w).
class PostProcess {
 public:
  PostProcess(Importer& importer, Operation& op) : importer_(importer), op_(op), s_(importer, op) {
    read_options();
    encodings_ = importer.real_input(op, 0), predictions_ = importer.real_input(op, 1);
    anchors_ = importer.real_input(op, 2);
    const DetectionInts of_boxes = s_.dims(encodings_), of_scores = s_.dims(predictions_);
    if (of_boxes.size() != 3 || of_scores.size() != 3 || of_boxes[0] != 1 || of_scores[0] != 1 || of_boxes[2] < 4)
      importer.bad(op, "boxes or scores of another shape than [1, boxes, ..]");
    n_ = of_boxes[1];
    background_ = of_scores[2] - classes_;
    if (of_scores[1] != n_ || s_.dims(anchors_) != DetectionInts{n_, 4} || classes_ < 1 || background_ < 0)
      importer.bad(op, "boxes, scores, anchors or num_classes do not fit");
    if (op.outputs.size() != 4) importer.bad(op, "has not four outputs");
  }

  void run() {
    const ValueId boxes = decoded();
    const ValueId scores = s_.slice(predictions_, 2, background_, classes_);
    const Detections y = regular_ ? of_classes(boxes, scores) : of_best(boxes, scores);
    const int64_t rows = most_ * (regular_ ? 1 : each_);
    s_.give(s_.reshape(y.boxes, {1, rows, 4}));
    s_.give(s_.reshape(y.classes, {1, rows}), 1);
    s_.give(s_.reshape(y.scores, {1, rows}), 2);
    s_.give(y.count, 3);
  }

 private:
  struct Detections {
    ValueId boxes, classes, scores, count;
  };

  void read_options() {
    const FlexMap map(*op_.record);
    const auto whole = [&](const char* name) {
      const std::optional<int64_t> v = map.find(name);
      if (!v) importer_.bad(op_, std::string("its options have no number ") + name);
      return *v;
    };
    const auto real = [&](const char* name) { return map.find_real(name).value_or(std::nanf("")); };
    most_ = whole("max_detections");
    each_ = whole("max_classes_per_detection");
    classes_ = whole("num_classes");
    regular_ = map.find("use_regular_nms").value_or(0) != 0;
    constexpr int64_t kUnsaid = 100;
    of_class_ = map.find("detections_per_class").value_or(kUnsaid);
    least_ = real("nms_score_threshold");
    overlap_ = real("nms_iou_threshold");
    const char* const names[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
    std::ranges::transform(names, scale_, real);
    check_most(importer_, op_, most_, "max_detections");
    check_most(importer_, op_, each_, "max_classes_per_detection");
    if (regular_) check_most(importer_, op_, of_class_, "detections_per_class");
    if (!(overlap_ > 0 && overlap_ <= 1) || std::isnan(least_)) importer_.bad(op_, "thresholds that are none");
    if (std::ranges::any_of(scale_, [](float v) { return !(v > 0); }))
      importer_.bad(op_, "scales that are not above 0");
  }

  // Returns boxes (yx - half, yx + half): yx = e_yx / scale * hw + anchor_yx, half = exp(e_hw / scale) / 2 * hw
  ValueId decoded() {
    const ValueId anchors = s_.reshape(anchors_, {1, n_, 4});
    const ValueId yx = s_.slice(anchors, 2, 0, 2), hw = s_.slice(anchors, 2, 2, 2);
    const auto part = [&](int first) {
      return s_.binary(Binary::kDiv, s_.slice(encodings_, 2, first, 2),
                       s_.numbers({1, 1, 2}, {scale_[first], scale_[first + 1]}));
    };
    const ValueId center = s_(Op::kAdd, {s_(Op::kMul, {part(0), hw}), yx});
    const ValueId grown = s_.unary(Unary::kExp, part(2));
    const ValueId half = s_(Op::kMul, {s_(Op::kMul, {grown, s_.number(grown, 0.5f)}), hw});
    return s_.concat({s_(Op::kSub, {center, half}), s_(Op::kAdd, {center, half})}, 2);
  }

  // Selects boxes by their greatest score, and for each selected box its `each_` classes of greatest score.
  Detections of_best(ValueId boxes, ValueId scores) {
    const int64_t given = std::min(each_, classes_);
    const ValueId best = s_.reshape(s_.extreme(scores, 2, true), {1, 1, n_});
    const Selected found = select(boxes, best, most_);
    const ValueId rows = s_.rows(s_.reshape(scores, {n_, classes_}), found.places);
    const Ordered top = s_.greatest(rows, given);
    const ValueId of_class = s_.cast(top.places, ElementType::kFloat32);
    const ValueId box = s_.reshape(s_.rows(s_.reshape(boxes, {n_, 4}), found.places), {most_, 1, 4});
    const ValueId count = s_.cast(found.count, ElementType::kFloat32), valid = below(count);
    return {shown(valid, spread(box, given)), shown(valid, filled_up(of_class, given)),
            shown(valid, filled_up(top.values, given)), count};
  }

  // Selects the boxes of each class separately, then the greatest scores of all classes.
  Detections of_classes(ValueId boxes, ValueId scores) {
    const int64_t of_class = std::min(of_class_, n_), all = of_class * classes_;
    const Selected found = select(boxes, s_.transpose(scores, {0, 2, 1}), of_class);
    const ValueId total = s_.cast(found.count, ElementType::kFloat32);
    const ValueId none = s_.number(found.kept, -kInfinity);
    const ValueId real = s_.compare(Compare::kLess, s_.counted(ElementType::kFloat32, {all}), total);
    const int64_t ordered = std::min(most_, all);
    const Ordered top = s_.greatest(s_.select(real, found.kept, none), ordered);
    const ValueId n = s_.one_like(found.places, n_), of = s_.binary(Binary::kFloorDiv, found.places, n);
    const ValueId within = s_(Op::kSub, {found.places, s_(Op::kMul, {of, n})});
    const auto taken = [&](ValueId x) {  // in float32, which is exact here, because no table of rows is int32
      return s_.rows(s_.reshape(s_.cast(x, ElementType::kFloat32), {all, 1}), top.places);
    };
    const ValueId box = s_.cast(s_.reshape(taken(within), {ordered}), ElementType::kInt32);
    const ValueId count = s_.binary(Binary::kMinimum, total, s_.number(total, float(most_))), valid = below(count);
    const auto listed = [&](ValueId x, int64_t width) {
      return shown(valid, more_rows(s_.reshape(x, {ordered, width}), most_ - ordered));
    };
    return {listed(s_.rows(s_.reshape(boxes, {n_, 4}), box), 4), listed(taken(of), 1), listed(top.values, 1), count};
  }

  Selected select(ValueId boxes, ValueId scores, int64_t most) {
    return select_boxes(
        importer_, op_, boxes, scores,
        {.most = most, .overlap = overlap_, .least = least_, .sigma = 0, .closed = false, .at_least = true});
  }

  // Returns a bool [most]: true for the first `count` detections.
  ValueId below(ValueId count) { return s_.compare(Compare::kLess, s_.counted(ElementType::kFloat32, {most_}), count); }

  // Returns x [most, ..] where it is valid, else 0.
  ValueId shown(ValueId valid, ValueId x) {
    DetectionInts dims(s_.dims(x).size(), 1);
    dims[0] = most_;
    return s_.select(s_.reshape(valid, dims), x, s_.number(x, 0));
  }

  // Appends columns of 0 up to `each_`, because the output may have room for more classes than there are.
  ValueId filled_up(ValueId x, int64_t given) {
    return given == each_ ? x : s_.concat({x, s_.filled({most_, each_ - given}, 0)}, 1);
  }
  ValueId spread(ValueId box, int64_t given) {
    std::vector<ValueId> copies(size_t(given), box);
    if (given < each_) copies.push_back(s_.filled({most_, each_ - given, 4}, 0));
    return s_.concat(std::move(copies), 1);
  }
  ValueId more_rows(ValueId x, int64_t rows) {
    return rows == 0 ? x : s_.concat({x, s_.filled({rows, s_.dims(x)[1]}, 0)}, 0);
  }

  Importer& importer_;
  Operation& op_;
  Steps s_;
  ValueId encodings_ = kNone, predictions_ = kNone, anchors_ = kNone;
  int64_t n_ = 0, classes_ = 0, background_ = 0, most_ = 0, each_ = 0, of_class_ = 0;
  float least_ = 0, overlap_ = 0, scale_[4] = {};
  bool regular_ = false;
};

}  // namespace

bool convert_detection(Importer& importer, Operation& op) {
  if (op.code_name != "CUSTOM TFLite_Detection_PostProcess") return false;
  PostProcess(importer, op).run();
  return true;
}

std::span<const Converter> detection_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::NON_MAX_SUPPRESSION_V4, &convert_non_max_suppression},
      {BuiltinOperator::NON_MAX_SUPPRESSION_V5, &convert_non_max_suppression},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
