/* SPDX-License-Identifier: MIT */
#include "ledger/records.h"

