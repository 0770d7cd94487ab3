/* Training on several machines, for C++. */
#pragma once

#include "ports/mpi/device_exchange.h"
#include "ports/mpi/exchange.h"
#include "ports/mpi/ranks.h"
