// Text of an SVG picture, element by element. Coordinates have one decimal, names are escaped: the
// same picture is always the same bytes, and always well-formed.
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

// Text inside an element or attribute: & < > " and quotes as entities; what XML 1.0 does not allow
// (most control characters, bytes that are no UTF-8) as U+FFFD.
std::string xml_escape(std::string_view text);

// "12.5", "3": a coordinate.
std::string svg_number(double value);

// Text that a screen reader says of a picture; `role` "group": its parts can be chosen. `css_class`: of its root.
struct SvgLabel {
  std::string_view text = {}, role = "img", css_class = {};
};

struct Rectangle {
  double x, y, width, height;
};

class Svg {
 public:
  // `style` is the text of a <style> element, "": none.
  Svg(double width, double height, std::string_view style, const SvgLabel& label = {});

  // Opens a group: everything drawn until close() belongs together and shows `title` when pointed at.
  void open_group(std::string_view title, std::string_view css_class = "");
  void close();
  // Opens a group that leads to the section with this id; `search`: words by which it is found.
  void open_link(std::string_view id, std::string_view title, std::string_view label, std::string_view search);
  void close_link();

  void rectangle(const Rectangle& r, std::string_view css_class, double radius = 0);
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void path(std::string_view data, std::string_view css_class, std::string_view end_marker = "");  // the marker's id
  void text(double x, double y, std::string_view words, std::string_view css_class);
  void raw(std::string_view element);  // a definition: an arrow head

  std::string finish();

 private:
  std::string text_;
};

// Width in pixels of a text in a sans-serif font of 1 pixel, from the advance widths of Helvetica,
// a little generous.
double text_width(std::string_view text);

}  // namespace nacre::tools
