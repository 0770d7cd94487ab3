// Svg: builds the text of an SVG picture, element by element. Coordinates have at most one decimal, and titles, labels
// and texts are escaped. Equal pictures give equal bytes.
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

// Escapes text for an element or attribute: & < > " and ' become entities, format controls \u202E (foreign_text.h).
// Anything that XML 1.0 does not allow (most control characters, bytes that are no UTF-8) becomes U+FFFD.
std::string xml_escape(std::string_view text);

// Returns a coordinate: "12.5", "3".
std::string svg_number(double value);

// Text that a screen reader says about a picture. `role` "group": its parts can be chosen. `css_class` is for its
// root.
struct SvgLabel {
  std::string_view text = {}, role = "img", css_class = {};
};

struct Rectangle {
  double x, y, width, height;
};

class Svg {
 public:
  // `style` is the text of a <style> element; "": no such element.
  Svg(double width, double height, std::string_view style, const SvgLabel& label = {});

  // Opens a group: everything drawn until close() belongs together and shows `title` when pointed at.
  void open_group(std::string_view title, std::string_view css_class = "");
  void close();
  // Opens a group that links to the section with this id. `search` holds words by which the group is found.
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

// Returns the width in pixels of a text in a sans-serif font of 1 pixel, slightly more than by Helvetica's advance
// widths.
double text_width(std::string_view text);

}  // namespace nacre::tools
