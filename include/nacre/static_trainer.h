/* Trains what `nacre firmware` writes. */
#pragma once

#include "engine/train/static_trainer.h"
