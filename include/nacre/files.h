/* Keeps checkpoints in files, for C++. */
#pragma once

#include "ports/files/checkpoint_files.h"
