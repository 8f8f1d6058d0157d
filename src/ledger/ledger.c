/* SPDX-License-Identifier: MIT */
#include "ledger/ledger.h"

