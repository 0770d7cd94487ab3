// Precompiled for what tests share and for the claims. No file may rely on it: each includes what it uses.
#ifndef NACRE_PCH_CLAIMS  // it is compiled on its own: #pragma once would be a warning
#define NACRE_PCH_CLAIMS

#include "tools/pch/tools.h"

#endif
