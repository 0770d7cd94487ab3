// Returns the style sheet and the script of every HTML page, page.css and page.js, as text.
#pragma once

namespace nacre::tools {

const char* page_style();
const char* page_script();  // holds no "</", because the page contains it unescaped

}  // namespace nacre::tools
