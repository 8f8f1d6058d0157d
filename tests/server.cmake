# SPDX-License-Identifier: MIT
#
# Tests of what a cross build leaves out: proto, ledger, service, server, and the command around them.

# weir_service_test(NAME SOURCE... [LABELS LABEL...] [ARGS ARGUMENT...] [TIMEOUT SECONDS])
# As weir_test, with the service and the server's parts.
function(weir_service_test name)
    weir_test(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE weir_server)
    get_property(labels TEST ${name} PROPERTY LABELS)
    list(REMOVE_ITEM labels core)
    set_property(TEST ${name} PROPERTY LABELS ${labels})
endfunction()

# ---- unit ------------------------------------------------------------------------------------------

# ---- threads ---------------------------------------------------------------------------------------

# ---- property --------------------------------------------------------------------------------------

# ---- fuzz ------------------------------------------------------------------------------------------

# ---- server: a real one on loopback, from outside --------------------------------------------------

# ---- cli: commands that talk to a server -----------------------------------------------------------

