/* Checkpoints in NOR flash, over the vendor's functions. */
#pragma once

#include "engine/train/nor_flash.h"
