/* SPDX-License-Identifier: MIT */
/*
 * A script of fleet/redis/script.h in a frame that gives it another server to see: TIME, INFO and what is
 * left of a key's life come with the question, behind the script's own words, and what it says of expiry
 * comes with the answer and does not happen. The script's own text is not touched.
 *
 *     ARGV[12] ... seconds, microseconds, INFO server, stats, replication, PTTL
 *     answer: {what the script says, ms until the key goes: "" nothing said, "-1" never}
 */
#ifndef WEIR_TESTS_SCRIPTS_SHIM_H
#define WEIR_TESTS_SCRIPTS_SHIM_H

static const char shim_front[] =
    "local real, redis, expires = redis, {error_reply = redis.error_reply}, ''\n"
    "local told = {server = ARGV[14], stats = ARGV[15], replication = ARGV[16],\n"
    "  memory = 'maxmemory:0\\r\\n'}\n"
    "function redis.call(name, ...)\n"
    "  local words = {...}\n"
    "  if name == 'TIME' then return {ARGV[12], ARGV[13]} end\n"
    "  if name == 'INFO' then return told[words[1]] end\n"
    "  if name == 'PTTL' then return tonumber(ARGV[17]) end\n"
    "  local answer = real.call(name, ...)\n"
    "  if name == 'PERSIST' then expires = '-1' end\n"
    "  if name == 'PEXPIRE' or (name == 'SET' and words[3] == 'PX') then\n"
    "    expires = words[#words]\n"
    "    real.call('PERSIST', KEYS[1])\n"
    "  end\n"
    "  return answer\n"
    "end\n"
    "local function script()\n";
static const char shim_back[] = "\nend\nlocal said = script()\nreturn {said, expires}\n";

#endif
