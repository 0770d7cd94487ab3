/* Declares the kernels and ops that the tables of `nacre firmware` name. */
#pragma once

#include "engine/kernels/entry_functions.h"
#include "engine/ops/all.h"
