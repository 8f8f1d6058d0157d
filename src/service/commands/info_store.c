/* SPDX-License-Identifier: MIT */
/*
 * INFO persistence: first what monitoring tools look for in a Redis server, then what there is.
 */
#include <inttypes.h>

#include "base/sat.h"
#include "service/commands/client.h"
#include "service/persist/persist.h"
#include "service/policies/retired.h"

#define say(out, ...) weir_buffer_print(out, __VA_ARGS__)

static void tell_as_redis(const struct store_state *state, bool kept, struct buffer *out)
{
    say(out,
        "loading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\n"
        "rdb_bgsave_in_progress:%d\r\nrdb_last_bgsave_status:ok\r\naof_enabled:%d\r\n"
        "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n",
        state->image_running, kept);
    if (kept)
        say(out, "aof_last_write_status:%s\r\n", state->ill ? "err" : "ok");
}

static void tell_files(const struct service *service, const struct store_state *state, int64_t now_ns,
                       struct buffer *out)
{
    int64_t files, bytes;
    weir_retired_count(service, &files, &bytes);
    say(out,
        "store_log_bytes:%" PRIu64 "\r\nstore_image:%" PRIu64 "\r\nstore_image_bytes:%" PRIu64
        "\r\nstore_image_age_ms:%" PRId64 "\r\n",
        state->log_bytes, state->image_number, state->image_bytes,
        state->image_time_ns > 0 ? max64(now_ns - state->image_time_ns, 0) / WEIR_MS : -1);
    say(out, "store_images:%" PRId64 "\r\nstore_image_failures:%" PRId64 "\r\nstore_image_running:%d\r\n",
        state->images, state->image_failures, state->image_running);
    say(out, "retired_files:%" PRId64 "\r\nretired_bytes:%" PRId64 "\r\n", files, bytes);
}

static void tell_syncs(const struct store_state *state, struct buffer *out)
{
    say(out,
        "store_appends:%" PRId64 "\r\nstore_records:%" PRId64 "\r\nstore_syncs:%" PRId64
        "\r\nstore_sync_us_last:%" PRId64 "\r\nstore_sync_us_most:%" PRId64 "\r\nstore_unsynced_ms:%" PRId64
        "\r\n",
        state->appends, state->records, state->syncs, state->sync_ns_last / 1000, state->sync_ns_most / 1000,
        state->unsynced_ns / WEIR_MS);
}

static void tell_recovery(const struct persistence *persistence, struct buffer *out)
{
    const struct store_found *found = &persistence->found;
    const char *word = found->fresh    ? "nothing"
                       : found->clean  ? "clean"
                       : found->lost   ? "lost"
                       : found->unsure ? "unsure"
                                       : "unclean";
    say(out, "recovered:%s\r\nrecovered_how:%s\r\nrecovered_keys:%" PRId64 "\r\nrecovered_ms:%" PRId64 "\r\n",
        word, persistence->how, persistence->keys, persistence->took_ns / WEIR_MS);
}

void weir_info_persistence(const struct worker *worker, struct buffer *out)
{
    const struct service *service = worker->service;
    struct store_state state = {0};
    if (service->store)
        weir_store_state(service->store, &state);
    tell_as_redis(&state, service->store != NULL, out);
    if (!service->store) {
        say(out, "data:none\r\n");
        return;
    }
    say(out, "data:%s\r\nfsync:%s\r\nstore_status:%s\r\n", service->persistence->path,
        weir_fsync_name((int)service->persistence->sync),
        state.ill    ? "ill"
        : state.slow ? "slow"
                     : "ok");
    say(out, "store_error:%s\r\nstore_ill_ms:%" PRId64 "\r\nstore_faults:%" PRId64 "\r\n", state.error,
        state.ill ? max64(worker->now_ns - state.ill_since_ns, 0) / WEIR_MS : 0, state.faults);
    tell_files(service, &state, worker->now_ns, out);
    tell_syncs(&state, out);
    tell_recovery(service->persistence, out);
}
