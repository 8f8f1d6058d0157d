/* SPDX-License-Identifier: MIT */
#include "service/http/browser.h"

#include "service/http/access.h"

void weir_browser_note_cors(struct http_run *run)
{
    struct buffer fields = {.most = EXCHANGE_CORS_MAX - 1};
    if (run->worker->snapshot->http->origins.count == 0)
        return;
    weir_access_put_cors(run->worker->snapshot, run->request, &fields);
    if (!fields.failed && buffer_len(&fields) > 0)
        memcpy(run->http.cors, buffer_bytes(&fields), buffer_len(&fields)); /* the rest is 0 */
    weir_buffer_free(&fields);
}

bool weir_browser_check(struct http_run *run, bool exempt)
{
    struct access_refusal refusal;
    bool has_credentials = run->session->logged_in;
    if (weir_access_check(run->worker->snapshot, run->request, has_credentials, exempt, &refusal))
        return true;
    http_answer_problem(run, refusal.status, refusal.why);
    return false;
}

void weir_browser_preflight(struct http_run *run)
{
    run->http.no_body = true;
    weir_response_finish(run->worker, &run->http, run->out, buffer_len(run->out), 204, TYPE_TEXT, NULL);
}
