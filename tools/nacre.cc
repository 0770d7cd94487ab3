#include "tools/cli/tool.h"

int main(int argc, char** argv) { return nacre::tools::run_tool(argc, argv); }
