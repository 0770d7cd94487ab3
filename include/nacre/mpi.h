/* Trains on several machines by MPI, for C++. */
#pragma once

#include "ports/mpi/device_exchange.h"
#include "ports/mpi/exchange.h"
#include "ports/mpi/ranks.h"
