# SPDX-License-Identifier: MIT
#
# Tests of what a cross build leaves out: resp, ledger, service, server, and the command around them.

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

weir_service_test(unit-resp-read unit/resp/test_resp_read.c)
weir_service_test(unit-resp-reply unit/resp/test_resp_reply.c)
target_link_options(unit-resp-reply PRIVATE -Wl,--wrap=calloc)
weir_service_test(unit-resp-write unit/resp/test_resp_write.c)
weir_service_test(unit-http-json unit/http/test_http_json.c)
weir_service_test(unit-http-path unit/http/test_http_path.c)
weir_service_test(unit-http-request unit/http/test_http_request.c)
weir_service_test(unit-http-uri unit/http/test_http_uri.c)

weir_service_test(unit-fleet-plan unit/fleet/test_fleet_plan.c)
weir_service_test(unit-weir-reply unit/fleet/test_weir_reply.c)
weir_service_test(unit-weir-tier unit/fleet/test_weir_tier.c)
weir_race(unit-weir-tier)

weir_service_test(unit-config unit/config/test_config.c)
weir_service_test(unit-address unit/config/test_address.c)
weir_service_test(unit-config-address unit/config/test_config_address.c)
weir_service_test(unit-config-http unit/config/test_config_http.c)
weir_service_test(unit-config-memory unit/config/test_config_memory.c)
weir_service_test(unit-config-print unit/config/test_config_print.c)
weir_service_test(unit-users unit/auth/test_users.c)
weir_service_test(unit-login-failures unit/auth/test_login_failures.c)
weir_service_test(unit-client-counts unit/auth/test_client_counts.c)
weir_service_test(unit-password-check unit/auth/test_password_check.c unit/service/service_kit.c)
weir_service_test(unit-log unit/service/test_log.c)
weir_race(unit-log)
weir_service_test(unit-candidate unit/service/test_candidate.c unit/service/service_kit.c)
weir_service_test(unit-keys unit/service/test_keys.c unit/service/service_kit.c)
weir_service_test(unit-refusal-log unit/service/test_refusal_log.c unit/service/service_kit.c)
weir_service_test(unit-ledger unit/ledger/test_ledger.c)
weir_service_test(unit-crash-order unit/service/test_crash_order.c unit/service/service_kit.c)
weir_service_test(unit-ledger-keep unit/ledger/test_ledger_keep.c)
weir_service_test(unit-records unit/ledger/test_records.c)
target_link_options(unit-records PRIVATE -Wl,--wrap=calloc,--wrap=aligned_alloc)
weir_service_test(unit-reserve unit/service/test_reserve.c unit/service/service_kit.c)
weir_service_test(unit-late-commit unit/service/test_late_commit.c unit/service/service_kit.c)

weir_service_test(unit-share unit/auth/test_share.c)
weir_service_test(unit-steps unit/ledger/test_smyte_buckets.c)
weir_service_test(unit-smyte unit/service/test_smyte.c unit/service/service_kit.c)
weir_service_test(unit-cell unit/service/test_cell.c unit/service/service_kit.c)
weir_service_test(unit-take unit/service/test_take.c unit/service/service_kit.c)
weir_service_test(unit-address-policy unit/service/test_address.c unit/service/service_kit.c)
weir_service_test(unit-full unit/service/test_full.c unit/service/service_kit.c)
weir_service_test(unit-explain unit/service/test_explain.c unit/service/service_kit.c)
weir_service_test(unit-fleet-root unit/service/test_fleet_root.c unit/service/service_kit.c)
weir_service_test(unit-fleet-change unit/service/test_fleet_change.c unit/service/service_kit.c)
weir_service_test(unit-fleet-memory unit/service/test_fleet_memory.c unit/service/service_kit.c)
target_link_options(unit-fleet-memory PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup)
weir_service_test(unit-fleet-leased unit/service/test_fleet_leased.c unit/service/service_kit.c)
target_link_options(unit-fleet-leased PRIVATE
    -Wl,--wrap=weir_member_join,--wrap=weir_member_watch,--wrap=weir_member_trouble,--wrap=weir_fleet_stat)
weir_service_test(unit-policy unit/service/test_policy.c)
weir_service_test(unit-forward-auth unit/service/test_forward_auth.c)
weir_service_test(unit-access unit/service/test_access.c)
weir_service_test(unit-snapshot unit/service/test_snapshot.c unit/service/service_kit.c)
weir_service_test(unit-service unit/service/test_service.c unit/service/service_kit.c)
weir_service_test(unit-service-keep unit/service/test_service_keep.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools>)
target_link_options(unit-service-keep PRIVATE -Wl,--wrap=madvise)
weir_service_test(unit-service-doubt unit/service/test_service_doubt.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools>)
target_link_options(unit-service-doubt PRIVATE -Wl,--wrap=madvise)
weir_service_test(unit-service-floor unit/service/test_service_floor.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools>)
target_link_options(unit-service-floor PRIVATE -Wl,--wrap=madvise)
weir_service_test(unit-service-memory unit/service/test_service_memory.c unit/service/service_kit.c)
weir_service_test(unit-between unit/service/test_between.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools>)
target_link_options(unit-between PRIVATE
    -Wl,--wrap=madvise,--wrap=weir_table_give_by_hash,--wrap=weir_snapshot_publish)
weir_service_test(unit-store-failures unit/store/test_store_failures.c $<TARGET_OBJECTS:disk_tools>)
weir_service_test(unit-store-records unit/store/test_store_records.c $<TARGET_OBJECTS:disk_tools>)
weir_service_test(unit-service-failures unit/service/test_service_failures.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools>)
if(WEIR_NATIVE)
    set_property(TEST unit-service-failures PROPERTY ENVIRONMENT WEIR_FAILURE_STEP=4) # by hand, 1: every piece of memory
else()
    set_property(TEST unit-service-failures PROPERTY ENVIRONMENT WEIR_FAILURE_STEP=16)
endif()
set_property(TEST unit-store-failures unit-service-failures PROPERTY TIMEOUT 400)
foreach(test unit-store-failures unit-service-failures)
    target_link_options(${test} PRIVATE
        -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup,--wrap=mmap,--wrap=madvise)
endforeach()

weir_service_test(unit-change unit/service/test_change.c unit/service/service_kit.c)
weir_service_test(unit-apply unit/service/test_apply.c unit/service/service_kit.c)
weir_service_test(unit-http-memory unit/service/test_http_memory.c unit/service/service_kit.c)
foreach(test unit-change unit-apply unit-config-memory unit-service-memory unit-http-memory) # failing_memory.h
    target_link_options(${test} PRIVATE
        -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup)
endforeach()
weir_service_test(unit-load unit/service/test_load.c unit/service/service_kit.c)
target_link_options(unit-load PRIVATE -Wl,--wrap=sched_yield,--wrap=weir_futex_wait)
weir_service_test(unit-growth unit/service/test_growth.c unit/service/service_kit.c)
weir_service_test(unit-forget unit/service/test_forget.c unit/service/service_kit.c)

weir_service_test(unit-connection unit/service/test_connection.c unit/service/service_kit.c)
weir_service_test(unit-client-commands unit/service/test_client_commands.c unit/service/service_kit.c)
target_link_options(unit-client-commands PRIVATE -Wl,--wrap=malloc -Wl,--wrap=realloc)
weir_service_test(unit-command-docs unit/service/test_command_docs.c unit/service/service_kit.c)
weir_service_test(unit-info unit/service/test_info.c unit/service/service_kit.c)
weir_service_test(unit-metrics unit/service/test_metrics.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools>)
weir_service_test(unit-policy-commands unit/service/test_policy_commands.c unit/service/service_kit.c)
weir_service_test(unit-override-commands unit/service/test_override_commands.c unit/service/service_kit.c)
weir_service_test(unit-matrix unit/service/test_matrix.c unit/service/service_kit.c)
weir_service_test(unit-http-words unit/service/test_http_words.c)
weir_service_test(unit-http-answers unit/service/test_http_answers.c unit/service/service_kit.c)
weir_service_test(unit-http-matrix unit/service/test_http_matrix.c unit/service/service_kit.c)

weir_service_test(unit-no-memory unit/service/test_no_memory.c unit/service/service_kit.c)
target_link_options(unit-no-memory PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup,--wrap=mmap,--wrap=madvise)

weir_service_test(unit-loop unit/server/test_loop.c)
weir_service_test(unit-acceptor unit/server/test_acceptor.c)
target_link_options(unit-acceptor PRIVATE -Wl,--wrap=weir_connection_offer)
weir_service_test(unit-server-end unit/server/test_server_end.c)
target_link_options(unit-server-end PRIVATE
    -Wl,--wrap=weir_io_thread_post,--wrap=weir_disk_wait_moved,--wrap=weir_io_thread_end)
weir_race(unit-server-end)
weir_service_test(unit-listen unit/server/test_listen.c)
weir_service_test(unit-proxy-protocol unit/server/test_proxy_protocol.c)
weir_service_test(unit-notify unit/server/test_notify.c)
weir_service_test(unit-file-watch unit/server/test_file_watch.c)
weir_service_test(unit-transport unit/server/test_transport.c)
weir_race(unit-loop)

# ---- threads ---------------------------------------------------------------------------------------

weir_service_test(threads-records threads/records.c threads/team.c)
set_property(TEST threads-records PROPERTY LABELS threads sanitize)
weir_race(threads-records)
weir_service_test(threads-records-kept threads/records_kept.c threads/team.c)
set_property(TEST threads-records-kept PROPERTY LABELS threads sanitize)
weir_race(threads-records-kept)
weir_service_test(threads-reservations threads/reservations.c threads/team.c unit/service/service_kit.c)
set_property(TEST threads-reservations PROPERTY LABELS threads sanitize)
weir_race(threads-reservations)

weir_service_test(threads-compatible threads/compatible.c threads/team.c unit/service/service_kit.c)
set_property(TEST threads-compatible PROPERTY LABELS threads sanitize)
weir_race(threads-compatible)

weir_service_test(threads-service threads/service_read_sections.c threads/team.c unit/service/service_kit.c)
weir_race(threads-service)

weir_service_test(threads-changes threads/service_changes.c threads/team.c unit/service/service_kit.c)
set_property(TEST threads-changes PROPERTY LABELS threads sanitize)
weir_race(threads-changes)

weir_service_test(threads-kept threads/service_kept.c threads/team.c unit/service/service_kit.c)
set_property(TEST threads-kept PROPERTY LABELS threads sanitize)
weir_race(threads-kept)

# ---- property --------------------------------------------------------------------------------------

weir_service_test(prop-resp property/prop_resp.c)
weir_service_test(prop-http property/prop_http.c)
weir_service_test(prop-connection property/prop_connection.c unit/service/service_kit.c)
weir_race(prop-connection)
weir_service_test(prop-disk-wait property/prop_disk_wait.c unit/service/service_kit.c)
target_link_options(prop-disk-wait PRIVATE
    -Wl,--wrap=weir_disk_wait_begin,--wrap=weir_store_commit,--wrap=weir_store_ticket_status,--wrap=weir_service_run,--wrap=weir_service_resume)
weir_race(prop-disk-wait)

weir_service_test(prop-steps property/prop_steps.c)
# Histories of a store on a simulated disk; script/prove-store tells any number of them.
weir_service_test(prop-store property/prop_store.c property/store_book.c property/store_history.c
    property/store_service.c property/store_tables.c property/table_cell.c unit/service/service_kit.c $<TARGET_OBJECTS:disk_tools> $<TARGET_OBJECTS:prop_engine>)
target_link_options(prop-store PRIVATE -Wl,--wrap=getrandom,--wrap=madvise)
set_property(TEST prop-store PROPERTY TIMEOUT 400)
if(NOT WEIR_NATIVE)
    set_property(TEST prop-store PROPERTY ENVIRONMENT WEIR_STORE_HISTORIES=200)
endif()
weir_service_test(prop-ledger property/prop_ledger.c unit/service/service_kit.c)

weir_service_test(prop-change property/prop_change.c unit/service/service_kit.c)

# ---- fuzz ------------------------------------------------------------------------------------------

weir_fuzz(command fuzz/fuzz_command.c)
target_link_libraries(fuzz-command PRIVATE weir_service)
target_link_options(fuzz-command PRIVATE -Wl,--wrap=madvise)
weir_fuzz(config fuzz/fuzz_config.c)
target_link_libraries(fuzz-config PRIVATE weir_service)
weir_fuzz(describe fuzz/fuzz_describe.c)
target_link_libraries(fuzz-describe PRIVATE weir_service)
target_link_options(fuzz-describe PRIVATE -Wl,--wrap=madvise,--wrap=getrandom)
weir_fuzz(dump fuzz/fuzz_dump.c)
target_link_libraries(fuzz-dump PRIVATE weir_service)
weir_fuzz(address fuzz/fuzz_address.c)
target_link_libraries(fuzz-address PRIVATE weir_server)
weir_fuzz(proxy fuzz/fuzz_proxy.c)
target_link_libraries(fuzz-proxy PRIVATE weir_server)
weir_fuzz(routes fuzz/fuzz_routes.c)
target_link_libraries(fuzz-routes PRIVATE weir_service)
weir_fuzz(http fuzz/fuzz_http.c)
target_link_libraries(fuzz-http PRIVATE weir_service)
weir_fuzz(http_service fuzz/fuzz_http_service.c)
target_link_libraries(fuzz-http_service PRIVATE weir_service)
target_link_options(fuzz-http_service PRIVATE -Wl,--wrap=madvise)
weir_fuzz(json fuzz/fuzz_json.c)
target_link_libraries(fuzz-json PRIVATE weir_service)
weir_fuzz(resp fuzz/fuzz_resp.c)
target_link_libraries(fuzz-resp PRIVATE weir_service)
weir_fuzz(tls fuzz/fuzz_tls.c)
target_link_libraries(fuzz-tls PRIVATE weir_server)
weir_fuzz(weir_reply fuzz/fuzz_weir_reply.c)
target_link_libraries(fuzz-weir_reply PRIVATE weir_service)

# ---- server: a real one on loopback, from outside --------------------------------------------------

foreach(part serve hostile logins tenants flood tls)
    weir_script(server-${part} server/test_${part}.py)
endforeach()

weir_script(server-vectors server/test_vectors.py)

add_executable(http-boundaries server/http_boundaries.c) # what script/http-differential compares with Node
weir_test_settings(http-boundaries)
target_link_libraries(http-boundaries PRIVATE weir_service)
find_program(NODE_PROGRAM node)
if(NODE_PROGRAM)
    add_test(NAME server-http-differential COMMAND ${NODE_PROGRAM} --no-deprecation
        ${CMAKE_CURRENT_SOURCE_DIR}/server/http_differential.mjs $<TARGET_FILE:http-boundaries> 5000)
    weir_test_properties(server-http-differential server)
endif()

weir_script(server-protocol server/test_protocol.py)
weir_script(server-http server/test_http.py)
weir_script(server-metrics server/test_metrics.py)
weir_script(server-routes server/test_routes.py)
weir_script(server-proxies server/test_proxies.py)
weir_script(server-address server/test_address.py)
weir_script(server-proxy-protocol server/test_proxy_protocol.py)
weir_script(server-clients server/test_clients.py)
weir_script(server-documents server/test_documents.py)

add_executable(server-steady server/steady.c) # a client for those below
weir_test_settings(server-steady)
foreach(part load abuse soak)
    weir_script(server-${part} server/test_${part}.py)
endforeach()
weir_script(server-reload server/test_reload.py)
weir_script(server-fleet server/test_fleet.py)
weir_script(server-dump server/test_dump.py)
weir_script(server-store server/test_store.py)
weir_script(server-kills server/test_kills.py)
weir_script(server-power server/test_power.py)
set_property(TEST server-power PROPERTY SKIP_RETURN_CODE 77) # CTest lists it as skipped

# ---- cli: commands that talk to a server -----------------------------------------------------------

weir_script(cli-check cli/test_check.py)
weir_script(cli-client cli/test_client.py)
weir_script(cli-quota cli/test_quota.py)
