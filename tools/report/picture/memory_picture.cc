#include "tools/report/picture/memory_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/report/picture/style.h"

namespace nacre::tools {
namespace {

constexpr double kNumbers = 30, kBankGap = 14, kLeastBank = 60;

std::string tensor_class(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "tensor of-reals";
    case ElementType::kInt8: return "tensor of-int8";
    case ElementType::kInt32:
    case ElementType::kInt64: return "tensor of-integers";
    default: return "tensor of-others";
  }
}

struct BankPicture {
  double x, width;
  uint64_t bytes;
  double at(uint64_t offset) const { return x + width * double(offset) / double(std::max<uint64_t>(bytes, 1)); }
};

// Makes widths proportional to the bytes, with a minimum at which a bank is still visible.
std::vector<BankPicture> place_banks(const ProgramReport& report, double x) {
  const std::span<const uint64_t> bytes = report.view().banks;
  const double room = kMemoryPanelWidth - kNumbers - kBankGap * double(bytes.size() > 0 ? bytes.size() - 1 : 0);
  double total = 0;
  for (const uint64_t b : bytes) total += double(b);
  const double spare = std::max(0.0, room - kLeastBank * double(bytes.size()));
  std::vector<BankPicture> banks;
  double at = x + kNumbers;
  for (const uint64_t b : bytes) {
    banks.push_back({at, kLeastBank + (total > 0 ? spare * double(b) / total : 0), b});
    at += banks.back().width + kBankGap;
  }
  return banks;
}

// Says which ends of a tensor get half a band: if a step writes its result over its operand, the two share its band.
struct Shares {
  bool begin, end;
};

class TakeOvers {
 public:
  explicit TakeOvers(const ProgramReport& report) {
    const ProgramView& view = report.view();
    for (uint32_t id = view.first_tensor; id < view.first_tensor + view.tensor_count; ++id) {
      const TensorRecord& t = report.tensor(id);
      if (t.alias_of != kNoIndex) continue;
      begins_.insert(key(t, t.first_step));
      ends_.insert(key(t, t.last_step));
    }
  }
  Shares of(const TensorRecord& t) const {
    const size_t own = t.first_step == t.last_step ? 1 : 0;  // then the tensor's own key is counted too
    return {ends_.count(key(t, t.first_step)) > own, begins_.count(key(t, t.last_step)) > own};
  }

 private:
  using Key = std::tuple<uint8_t, uint64_t, uint64_t, uint32_t>;
  static Key key(const TensorRecord& t, uint32_t step) { return {t.bank, t.offset, t.bytes, step}; }
  std::multiset<Key> begins_, ends_;
};

void draw_tensor(Svg& svg, const ProgramReport& report, uint32_t id, const BankPicture& bank,
                 const std::vector<Band>& bands, Shares shares) {
  const TensorRecord& t = report.tensor(id);
  const Band &first = bands[t.first_step], &last = bands[t.last_step];
  const double top = first.top + (shares.begin ? first.height / 2 : 1.5);
  const double bottom = last.top + (shares.end ? last.height / 2 : last.height - 1.5);
  const Rectangle r = {bank.at(t.offset), top, std::max(1.0, bank.at(t.offset + t.bytes) - bank.at(t.offset)),
                       bottom - top};
  svg.open_group(tensor_title(report, id));
  svg.rectangle(r, tensor_class(t.element), 2);
  const std::string bytes = grouped(t.bytes) + " B", shape = short_shape(report, id);
  const double middle = r.x + r.width / 2, centre = r.y + r.height / 2;
  const bool both = r.height >= 28 && text_width(shape) * kSmallFont < r.width - 4;
  if (both) svg.text(middle, centre - 2, shape, "mid");
  if (r.height >= 13 && text_width(bytes) * kSmallFont < r.width - 2)
    svg.text(middle, centre + (both ? 11 : 4), bytes, "mid");
  svg.close();
}

void draw_bands(Svg& svg, const ProgramReport& report, const std::vector<Band>& bands, double x) {
  const std::vector<uint64_t> live = report.live_bytes();
  const uint64_t peak = *std::ranges::max_element(live);
  for (size_t step = 0; step < bands.size(); ++step) {
    const bool most = live[step] == peak;
    svg.open_group(fmt::format("step {}: {} live bytes{}", step, grouped(live[step]), most ? ", the peak" : ""));
    const Rectangle r = {x, bands[step].top + 1, kMemoryPanelWidth, std::max(0.5, bands[step].height - 2)};
    svg.rectangle(r, most ? "peak" : "band");
    if (r.height >= 9)
      svg.text(x + kNumbers - 7, bands[step].top + bands[step].height / 2 + 4, std::to_string(step), "layer end");
    svg.close();
  }
}

// Draws the legend: the panel's contents in words, and the colours of its tensors.
void draw_legend(Svg& svg, const ProgramReport& report, double x, double top) {
  svg.text(x, top - 44, "memory plan", "op");
  svg.text(x + 112, top - 44,
           fmt::format("arena offset \u00D7 step; liveness lower bound {} B", grouped(report.names().liveness_bound)),
           "words");
  std::set<ElementType> types;
  for (uint32_t i = 0; i < report.view().tensor_count; ++i)
    types.insert(report.tensor(report.view().first_tensor + i).element);
  for (const ElementType type : types) {
    svg.rectangle({x, top - 35, 14, 10}, tensor_class(type), 2);
    svg.text(x + 19, top - 26, name_of(type), "words");
    x += 19 + text_width(name_of(type)) * kSmallFont + 16;
  }
  svg.rectangle({x, top - 35, 14, 10}, "peak");
  svg.text(x + 19, top - 26, "peak of live bytes", "words");
}

}  // namespace

void draw_memory(Svg& svg, const ProgramReport& report, const std::vector<Band>& bands, double x) {
  const ProgramView& view = report.view();
  const double top = bands.front().top, bottom = bands.back().top + bands.back().height;
  draw_legend(svg, report, x + kNumbers, top);
  draw_bands(svg, report, bands, x);
  const std::vector<BankPicture> banks = place_banks(report, x);
  for (size_t i = 0; i < banks.size(); ++i) {
    const std::string& name = report.names().banks[i];
    svg.text(banks[i].x, top - 8, name.empty() ? "arena" : name, "words");
    svg.text(banks[i].x + banks[i].width, top - 8, grouped(banks[i].bytes) + " B", "words end");
    svg.rectangle({banks[i].x, top, banks[i].width, bottom - top}, "frame");
  }
  const TakeOvers take_overs(report);
  for (uint32_t id = view.first_tensor; id < view.first_tensor + view.tensor_count; ++id) {
    const TensorRecord& t = report.tensor(id);
    if (t.alias_of == kNoIndex) draw_tensor(svg, report, id, banks[t.bank], bands, take_overs.of(t));
  }
}

}  // namespace nacre::tools
