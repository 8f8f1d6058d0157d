/* SPDX-License-Identifier: MIT */
#include "service/histogram.h"

#include "weir.h"

#define US INT64_C(1000)

/* Texts are the shortest that read back as the same number, as OpenMetrics wants them. */
const struct histogram_bound weir_decision_bounds[HISTOGRAM_BOUNDS] = {
    {250, "2.5e-07"},       {500, "5e-07"},          {1 * US, "1e-06"},      {2500, "2.5e-06"},
    {5 * US, "5e-06"},      {10 * US, "1e-05"},      {25 * US, "2.5e-05"},   {50 * US, "5e-05"},
    {100 * US, "0.0001"},   {250 * US, "0.00025"},   {500 * US, "0.0005"},   {1 * WEIR_MS, "0.001"},
    {5 * WEIR_MS, "0.005"}, {25 * WEIR_MS, "0.025"}, {100 * WEIR_MS, "0.1"},
};

const struct histogram_bound weir_store_wait_bounds[HISTOGRAM_BOUNDS] = {
    {50 * US, "5e-05"},      {100 * US, "0.0001"},   {250 * US, "0.00025"},  {500 * US, "0.0005"},
    {1 * WEIR_MS, "0.001"},  {2500 * US, "0.0025"},  {5 * WEIR_MS, "0.005"}, {10 * WEIR_MS, "0.01"},
    {25 * WEIR_MS, "0.025"}, {50 * WEIR_MS, "0.05"}, {100 * WEIR_MS, "0.1"}, {250 * WEIR_MS, "0.25"},
    {500 * WEIR_MS, "0.5"},  {1 * WEIR_SEC, "1.0"},  {5 * WEIR_SEC, "5.0"},
};
