/* Keeps checkpoints in files, for C. */
#pragma once

#include "ports/files/files_c.h"
