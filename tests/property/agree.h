/* SPDX-License-Identifier: MIT */
/*
 * Do the library and the model say the same, in every field?
 */
#ifndef WEIR_TESTS_PROPERTY_AGREE_H
#define WEIR_TESTS_PROPERTY_AGREE_H

#include "model/model.h"

/* The same number; if a limit of the policy is a warmup, but for some roundings of its store. */
bool agree_near(const struct weir_policy *policy, const struct model_policy *model, int64_t a, int64_t b);

bool agree_verdicts(const struct weir_policy *policy, const struct model_policy *model, int64_t now,
                    const struct weir_verdict *got, const struct weir_verdict *wanted);
/* One line that says how they differ. */
void agree_print(const char *verb, const struct weir_verdict *got, const struct weir_verdict *want,
                 char *text, size_t size);

#endif
