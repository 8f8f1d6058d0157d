/* SPDX-License-Identifier: MIT */
/*
 * There are no transactions. But clients send MULTI, their commands and EXEC in one go, and look at the
 * errors afterwards: so nothing of what stands between is run, and EXEC says so. Who sees the error can be
 * sure that nothing was taken.
 */
#include "service/run.h"

bool weir_transaction_stops(struct call *call)
{
    struct session *session = call->session;
    if (!session->transaction) {
        session->transaction = weir_call_word(call, 0, "MULTI");
        return false; /* it is an unknown command, and advised as one */
    }
    if (weir_call_word(call, 0, "QUIT"))
        return false;
    bool exec = weir_call_word(call, 0, "EXEC"), discard = weir_call_word(call, 0, "DISCARD");
    session->transaction = !exec && !discard && !weir_call_word(call, 0, "RESET");
    if (exec)
        weir_call_error(call, "EXECABORT Transaction discarded because of previous errors.");
    else if (discard)
        weir_reply_simple(&call->reply, "OK");
    else if (session->transaction)
        weir_call_error(call, "ERR a transaction was refused: nothing is run until EXEC or DISCARD; use a "
                              "pipeline without MULTI (redis-py: pipeline(transaction=False))");
    return exec || discard || session->transaction;
}
