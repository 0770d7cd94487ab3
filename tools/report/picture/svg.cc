#include "tools/report/picture/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "tools/base/foreign_text.h"

namespace nacre::tools {
namespace {

// Returns the length of the UTF-8 character at `at` (Unicode 15, table 3-7); 0 for none, and for U+FFFE and U+FFFF.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? uint32_t(static_cast<unsigned char>(text[at + i])) : 0u;
  };
  const uint32_t first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const uint32_t second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  const bool not_character = first == 0xEF && second == 0xBF && byte(2) >= 0xBE;  // U+FFFE, U+FFFF
  return overlong || outside || not_character ? 0 : length;
}

const char* entity(char c) {
  switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return nullptr;
  }
}

}  // namespace

std::string xml_escape(std::string_view raw) {
  const std::string visible = with_visible_controls(raw);
  const std::string_view text = visible;
  std::string escaped;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    const auto c = static_cast<unsigned char>(text[at]);
    if (length == 0 || (c < 0x20 && c != '\n' && c != '\t')) {
      escaped += "\xEF\xBF\xBD";
    } else if (const char* e = entity(text[at])) {
      escaped += e;
    } else {
      escaped += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return escaped;
}

std::string svg_number(double value) {
  const double tenths = std::round(value * 10);
  if (tenths == 0) return "0";
  return std::fmod(tenths, 10) == 0 ? fmt::format("{:.0f}", tenths / 10) : fmt::format("{:.1f}", tenths / 10);
}

Svg::Svg(double width, double height, std::string_view style, const SvgLabel& label) {
  const std::string w = svg_number(width), h = svg_number(height);
  std::string said;
  if (!label.css_class.empty()) said += fmt::format(" class=\"{}\"", label.css_class);
  if (!label.text.empty()) said += fmt::format(" role=\"{}\" aria-label=\"{}\"", label.role, xml_escape(label.text));
  text_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\"{2}>\n", w, h,
      said);
  if (!style.empty()) text_ += fmt::format("<style>\n{}</style>\n", style);
}

void Svg::open_group(std::string_view title, std::string_view css_class) {
  text_ += css_class.empty() ? "<g>" : fmt::format("<g class=\"{}\">", css_class);
  text_ += title.empty() ? "\n" : fmt::format("<title>{}</title>\n", xml_escape(title));
}

void Svg::close() { text_ += "</g>\n"; }

void Svg::open_link(std::string_view id, std::string_view title, std::string_view label, std::string_view search) {
  text_ += fmt::format("<a href=\"#{}\" aria-label=\"{}\" data-search=\"{}\"><title>{}</title>\n", id,
                       xml_escape(label), xml_escape(search), xml_escape(title));
}

void Svg::close_link() { text_ += "</a>\n"; }

void Svg::rectangle(const Rectangle& r, std::string_view css_class, double radius) {
  text_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", css_class, svg_number(r.x),
                       svg_number(r.y), svg_number(r.width), svg_number(r.height));
  if (radius > 0) text_ += fmt::format(" rx=\"{}\"", svg_number(radius));
  text_ += "/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  text_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", css_class, svg_number(x1),
                       svg_number(y1), svg_number(x2), svg_number(y2));
}

void Svg::path(std::string_view data, std::string_view css_class, std::string_view end_marker) {
  text_ += fmt::format("<path class=\"{}\" d=\"{}\"", css_class, data);
  if (!end_marker.empty()) text_ += fmt::format(" marker-end=\"url(#{})\"", end_marker);
  text_ += "/>\n";
}

void Svg::text(double x, double y, std::string_view words, std::string_view css_class) {
  text_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", css_class, svg_number(x), svg_number(y),
                       xml_escape(words));
}

void Svg::raw(std::string_view element) { text_ += fmt::format("{}\n", element); }

std::string Svg::finish() { return text_ + "</svg>\n"; }

double text_width(std::string_view text) {
  // Widths as shares of the font size, after Helvetica's advance widths (Adobe font metrics), in three classes.
  constexpr std::string_view kNarrow = "fijlrt.,:;'|!()[]/\\ ", kWide = "mwMWOQGCDNHUVAKXYRB%@&";
  double width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;  // continuation byte of a character
    width += kNarrow.find(c) != std::string_view::npos ? 0.36 : kWide.find(c) != std::string_view::npos ? 0.82 : 0.6;
  }
  return width;
}

}  // namespace nacre::tools
