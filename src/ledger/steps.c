/* SPDX-License-Identifier: MIT */
#include "ledger/steps.h"

