// An HTML page, element by element: no script, nothing from outside, every text escaped. Light and dark as the reader's
// system is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

class Html {
 public:
  explicit Html(std::string_view title);

  void heading(int level, std::string_view text);
  void paragraph(std::string_view text);
  void list(const std::vector<std::string>& items);
  // Cells from column `numbers_from` on stand to the right. Scrolls where it is wider than the page.
  void table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
             size_t numbers_from = 1);
  void figure(std::string_view svg, std::string_view caption);  // `svg` as Svg::finish() gives it
  void open_details(std::string_view summary);                  // what follows is folded until asked for
  void close_details();

  std::string finish();

 private:
  std::string text_;
};

}  // namespace nacre::tools
