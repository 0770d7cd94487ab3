// Checks that a page is well-formed, whatever names it holds, and self-contained: it fetches nothing and runs only
// its own script.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/run_tool.h"
#include "tools/report/page_files.h"

namespace nacre::tools {

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// Returns the page without the tool's script, or "" if the page does not hold the script exactly once.
inline std::string without_script(std::string html) {
  const std::string script = std::string("<script>") + page_script() + "</script>";
  if (count_of(html, script) != 1) return "";
  return html.erase(html.find(script), script.size());
}

// Checks that every element is closed in order, but <meta> and tags that end in "/>", and that every id occurs once.
// Returns the error, or "".
inline std::string malformed_page(const std::string& page) {
  const std::string html = without_script(page);
  if (html.empty()) return "its script is not there once";
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = html.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '!' || name == "meta" || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != tag.substr(1)) return "closed but not open: " + tag;
      open.pop_back();
    }
  }
  if (!open.empty()) return "still open: " + open.back();
  std::set<std::string> ids;
  for (size_t at = html.find(" id=\""); at != std::string::npos; at = html.find(" id=\"", at + 1)) {
    const std::string id = html.substr(at + 5, html.find('"', at + 5) - at - 5);
    if (!ids.insert(id).second) return "an id is there twice: " + id;
  }
  return "";
}

// Checks that nothing is fetched and only the page's own script runs. SVG namespaces are only names, and links stay
// in the page. Returns the error, or "".
inline std::string reaches_out(const std::string& page) {
  std::string html = without_script(page);
  for (const std::string known : {"xmlns=\"http://www.w3.org/2000/svg\"", "href=\"#"})
    for (size_t at = html.find(known); at != std::string::npos; at = html.find(known)) html.erase(at, known.size());
  for (const char* word :
       {"<script", "http:", "https:", "src=", "href=", "@import", "<link", "<iframe", "onload", "onclick"})
    if (has(html, word)) return word;
  return "";
}

}  // namespace nacre::tools
