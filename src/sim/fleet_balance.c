/* SPDX-License-Identifier: MIT */
/*
 * A node's balance, more generous than a real one (limiter/balance.h): each piece keeps its own end, where a
 * real balance has one for all. So whatever the machine allows is tried.
 */
#include "sim/fleet_world.h"

static void drop_dead(struct sim_balance *balance, int64_t now)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < balance->count; i++)
        if (balance->pieces[i].units > 0 && balance->pieces[i].until_ns > now)
            balance->pieces[kept++] = balance->pieces[i];
    balance->count = kept;
}

int64_t weir_sim_balance_ready(const struct sim_balance *balance, int64_t now)
{
    int64_t units = 0;
    for (int32_t i = 0; i < balance->count; i++)
        if (balance->pieces[i].from_ns <= now && balance->pieces[i].until_ns > now)
            units += balance->pieces[i].units;
    return units;
}

int64_t weir_sim_balance_held(const struct sim_balance *balance, int64_t now)
{
    int64_t units = 0;
    for (int32_t i = 0; i < balance->count; i++)
        if (balance->pieces[i].until_ns > now)
            units += balance->pieces[i].units;
    return units;
}

bool weir_sim_balance_take(struct sim_balance *balance, int64_t now, int64_t n, struct sim_units *taken,
                           int32_t *count)
{
    *count = 0;
    if (weir_sim_balance_ready(balance, now) < n)
        return false;
    int64_t missing = n;
    for (int32_t i = 0; i < balance->count && missing > 0; i++) {
        struct sim_units *piece = &balance->pieces[i];
        if (piece->from_ns > now || piece->until_ns <= now || piece->units == 0)
            continue;
        if (*count == TAKEN_MAX)
            break;
        taken[*count] = *piece;
        taken[*count].units = min64(missing, piece->units);
        piece->units -= taken[*count].units;
        missing -= taken[(*count)++].units;
    }
    if (missing > 0) { /* too many pieces for one question: it is as if there were less */
        for (int32_t i = 0; i < *count; i++)
            weir_sim_balance_put(balance, taken[i], now);
        return false;
    }
    balance->spent += n;
    return true;
}

void weir_sim_balance_put(struct sim_balance *balance, struct sim_units piece, int64_t now)
{
    for (int32_t i = 0; i < balance->count; i++) {
        struct sim_units *there = &balance->pieces[i];
        bool same = there->until_ns == piece.until_ns && there->share == piece.share &&
                    there->origin.epoch == piece.origin.epoch &&
                    there->origin.master == piece.origin.master &&
                    there->origin.ends_ns == piece.origin.ends_ns &&
                    (there->from_ns == piece.from_ns || max64(there->from_ns, piece.from_ns) <= now);
        if (same) {
            there->units += piece.units;
            return;
        }
    }
    if (balance->count == PIECES_MAX)
        drop_dead(balance, now);
    if (piece.units > 0 && balance->count < PIECES_MAX)
        balance->pieces[balance->count++] = piece;
}

int64_t weir_sim_balance_withdraw(struct sim_balance *balance, int64_t now, int64_t chunk, int64_t most)
{
    int64_t chunks = 0;
    drop_dead(balance, now);
    for (int32_t i = 0; i < balance->count && chunk > 0; i++) {
        int64_t some = min64(most - chunks, balance->pieces[i].units / chunk);
        balance->pieces[i].units -= some * chunk;
        chunks += some;
    }
    return chunks;
}

int64_t weir_sim_balance_begins(const struct sim_balance *balance, int64_t now)
{
    int64_t begins = WEIR_FOREVER;
    for (int32_t i = 0; i < balance->count; i++)
        if (balance->pieces[i].from_ns > now)
            begins = min64(begins, balance->pieces[i].from_ns);
    return begins;
}
