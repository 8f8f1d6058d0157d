/* SPDX-License-Identifier: MIT */
/*
 * A node's pot, more generous than a real one (limiter/pot.h): each piece keeps its own end, where a real pot
 * has one for all. So whatever the machine allows is tried.
 */
#include "sim/fleet_world.h"

static void drop_dead(struct sim_pot *pot, int64_t now)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < pot->count; i++)
        if (pot->pieces[i].units > 0 && pot->pieces[i].until_ns > now)
            pot->pieces[kept++] = pot->pieces[i];
    pot->count = kept;
}

int64_t weir_sim_pot_ready(const struct sim_pot *pot, int64_t now)
{
    int64_t units = 0;
    for (int32_t i = 0; i < pot->count; i++)
        if (pot->pieces[i].from_ns <= now && pot->pieces[i].until_ns > now)
            units += pot->pieces[i].units;
    return units;
}

int64_t weir_sim_pot_held(const struct sim_pot *pot, int64_t now)
{
    int64_t units = 0;
    for (int32_t i = 0; i < pot->count; i++)
        if (pot->pieces[i].until_ns > now)
            units += pot->pieces[i].units;
    return units - pot->debt;
}

bool weir_sim_pot_take(struct sim_pot *pot, int64_t now, int64_t n, struct piece *taken, int32_t *count)
{
    *count = 0;
    if (weir_sim_pot_ready(pot, now) < n)
        return false;
    int64_t missing = n;
    for (int32_t i = 0; i < pot->count && missing > 0; i++) {
        struct piece *piece = &pot->pieces[i];
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
            weir_sim_pot_put(pot, taken[i], now);
        return false;
    }
    pot->spent += n;
    return true;
}

void weir_sim_pot_put(struct sim_pot *pot, struct piece piece, int64_t now)
{
    int64_t repaid = min64(pot->debt, piece.units);
    pot->debt -= repaid;
    piece.units -= repaid;
    for (int32_t i = 0; i < pot->count; i++) {
        struct piece *there = &pot->pieces[i];
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
    if (pot->count == PIECES_MAX)
        drop_dead(pot, now);
    if (piece.units > 0 && pot->count < PIECES_MAX)
        pot->pieces[pot->count++] = piece;
}

int64_t weir_sim_pot_withdraw(struct sim_pot *pot, int64_t now, int64_t chunk, int64_t most)
{
    int64_t chunks = 0;
    drop_dead(pot, now);
    for (int32_t i = 0; i < pot->count && chunk > 0; i++) {
        int64_t some = min64(most - chunks, pot->pieces[i].units / chunk);
        pot->pieces[i].units -= some * chunk;
        chunks += some;
    }
    return chunks;
}

void weir_sim_pot_clear(struct sim_pot *pot)
{
    pot->count = 0;
}

int64_t weir_sim_pot_begins(const struct sim_pot *pot, int64_t now)
{
    int64_t begins = WEIR_FOREVER;
    for (int32_t i = 0; i < pot->count; i++)
        if (pot->pieces[i].from_ns > now)
            begins = min64(begins, pot->pieces[i].from_ns);
    return begins;
}
