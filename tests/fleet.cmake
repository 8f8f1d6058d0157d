# SPDX-License-Identifier: MIT
#
# Tests of members of a fleet and of what they are made of. A cross build has no fleet.

# weir_fleet_test(NAME SOURCE... [LABELS LABEL...] [ARGS ARGUMENT...] [TIMEOUT SECONDS])
# As weir_test, with the fleet; fake://NAME is a coordinator of the test's own (unit/fleet/fake_coordinator.h).
function(weir_fleet_test name)
    weir_test(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE weir_fleet)
    get_property(labels TEST ${name} PROPERTY LABELS)
    list(REMOVE_ITEM labels core)
    set_property(TEST ${name} PROPERTY LABELS ${labels})
    if("unit/fleet/fake_coordinator.c" IN_LIST ARGN)
        target_link_options(${name} PRIVATE -Wl,--wrap=weir_coordinator_kind)
    endif()
endfunction()

weir_fleet_test(unit-fleet-text unit/fleet/test_fleet_text.c)
weir_fleet_test(unit-fleet-parts unit/fleet/test_fleet_parts.c)
weir_fleet_test(unit-resp-client unit/fleet/test_resp_client.c)
weir_race(unit-resp-client)
weir_fleet_test(unit-resp-client-failures unit/fleet/test_resp_client_failures.c)
foreach(call socket connect send recv poll eventfd eventfd_write eventfd_read getsockopt setsockopt pthread_create
        malloc calloc realloc aligned_alloc strdup)
    target_link_options(unit-resp-client-failures PRIVATE -Wl,--wrap=${call})
endforeach()
weir_fleet_test(unit-redis unit/fleet/test_redis.c)

# weir_patient_join(NAME): who joins has had his first units, also where the machine is busy for longer than a join waits
# for them elsewhere.
function(weir_patient_join name)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/fleet/member.c)
    target_compile_definitions(${name} PRIVATE "FIRST_NS=INT64_C(20000000000)")
endfunction()

# ---- real coordinators, and processes as nodes of a fleet ------------------------------------------

add_executable(fleet-node fleet/node.c)
weir_test_settings(fleet-node)
target_link_libraries(fleet-node PRIVATE weir_fleet)
add_dependencies(sanitize_tests fleet-node)
weir_fleet_test(unit-member unit/fleet/test_member.c unit/fleet/fake_coordinator.c)
weir_race(unit-member)
weir_fleet_test(unit-member-join unit/fleet/test_member_join.c unit/fleet/fake_coordinator.c)
weir_race(unit-member-join)
weir_patient_join(unit-member-join)
weir_fleet_test(unit-member-released unit/fleet/test_member_released.c unit/fleet/fake_coordinator.c)
weir_race(unit-member-released)
# A wrong wall clock for any process (LD_PRELOAD): nothing else may be in it.
add_library(fleet-wall MODULE fleet/wall.c)
target_compile_options(fleet-wall PRIVATE -fno-sanitize=all)
target_link_options(fleet-wall PRIVATE -fno-sanitize=all)
set_target_properties(fleet-wall PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_executable(fleet-place fleet/place.c)
weir_test_settings(fleet-place)
target_link_libraries(fleet-place PRIVATE weir_fleet)
add_executable(fleet-exact fleet/exact.c fleet/talk.c)
weir_test_settings(fleet-exact)
target_link_libraries(fleet-exact PRIVATE weir_fleet)
add_executable(fleet-scripts fleet/scripts.c fleet/scripts_law.c fleet/scripts_model.c fleet/talk.c)
weir_test_settings(fleet-scripts)
target_link_libraries(fleet-scripts PRIVATE weir_fleet m)

weir_script(fleet-tiers fleet/test_tiers.py)
weir_fleet_test(unit-zookeeper-nodes unit/fleet/test_zookeeper_nodes.c)
weir_fleet_test(unit-zookeeper-failures unit/fleet/test_zookeeper_failures.c unit/fleet/fake_zclient.c)
target_link_options(unit-zookeeper-failures PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup)
weir_fleet_test(unit-zookeeper-epochs unit/fleet/test_zookeeper_epochs.c unit/fleet/fake_zclient.c)
target_link_options(unit-zookeeper-epochs PRIVATE -Wl,--wrap=weir_monotonic_ns)
weir_fuzz(znode fuzz/fuzz_znode.c)
target_link_libraries(fuzz-znode PRIVATE weir_fleet)
weir_fleet_test(unit-fleet-local unit/fleet/test_fleet_local.c)
weir_race(unit-fleet-local)
weir_patient_join(unit-fleet-local)
weir_fleet_test(unit-name-trie unit/fleet/test_name_trie.c)
weir_fleet_test(unit-member-crowd unit/fleet/test_member_crowd.c)
target_link_options(unit-member-crowd PRIVATE -Wl,--wrap=weir_coordinator_kind)
weir_fleet_test(unit-member-memory unit/fleet/test_member_memory.c unit/fleet/fake_coordinator.c)
target_link_options(unit-member-memory PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup)
weir_fleet_test(unit-member-freed unit/fleet/test_member_freed.c unit/fleet/fake_coordinator.c
    ${PROJECT_SOURCE_DIR}/src/limiter/life.c)
target_compile_options(unit-member-freed PRIVATE -DNDEBUG)
weir_race(unit-member-freed)
weir_fleet_test(threads-fleet threads/fleet.c)
weir_race(threads-fleet)
weir_script(fleet-zookeeper fleet/test_zookeeper.py)
weir_script(fleet-hostile fleet/test_hostile.py)
weir_script(fleet-redis fleet/test_redis.py)
weir_fuzz(redis_reply fuzz/fuzz_redis_reply.c)
target_link_libraries(fuzz-redis_reply PRIVATE weir_fleet)

weir_script(fleet-judge fleet/test_judge.py)
# Windows of real fleets under faults; more of them by script/fleet-loop.
foreach(kind zookeeper redis cluster weir)
    weir_script(fleet-loop-${kind} fleet/fleet_loop.py ${kind} 5 --seed 1)
    set_tests_properties(fleet-loop-${kind} PROPERTIES RESOURCE_LOCK fleet-loop)
endforeach()
foreach(kind redis-bucket weir-bucket) # a window is a measure of time: shorter ones, more faults
    weir_script(fleet-loop-${kind} fleet/fleet_loop.py ${kind} 5 --window 0.5 --seed 9)
    set_tests_properties(fleet-loop-${kind} PROPERTIES RESOURCE_LOCK fleet-loop)
endforeach()
