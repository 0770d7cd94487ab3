/* Keeps checkpoints in NOR flash, which the vendor's functions program and erase. */
#pragma once

#include "engine/train/nor_flash.h"
