/* SPDX-License-Identifier: MIT */
#include "fleet/redis/script.h"

/* ---- what scripts share ----------------------------------------------------------------------- */

/* A whole number within bounds, or nil; terms that nodes understand (weir_terms_complete), or nil. An
 * operator may have written anything. */
static const char common[] =
    "local function whole(text, least, most)\n"
    "  if not text or #text > 17 or not string.match(text, '^%d+$') then return nil end\n"
    "  local n = tonumber(text)\n"
    "  return n >= least and n <= most and n or nil\n"
    "end\n"
    "local function terms_of(kind, total, window, burst, base)\n"
    "  local t = {kind = kind, total = whole(total, 1, 1e15), window = whole(window, 1e7, 31622400e9),\n"
    "    burst = whole(burst, 0, 1e15), base = whole(base, 1, 1e15)}\n"
    "  if not (t.total and t.window and t.burst and t.base) then return nil end\n"
    "  if kind ~= 'quota' and kind ~= 'bucket' then return nil end\n"
    "  if kind == 'quota' and t.base > t.total then return nil end\n"
    "  if kind == 'bucket' and (t.burst < 2 * t.base or (t.burst - t.base) * t.window / t.total < 1e6) then\n"
    "    return nil\n"
    "  end\n"
    "  t.text = table.concat({kind, total, window, burst, base}, ' ')\n"
    "  return t\n"
    "end\n"
    "local function read_terms(text)\n"
    "  return terms_of(string.match(text or '', '^(%a+) (%d+) (%d+) (%d+) (%d+)'))\n"
    "end\n"
    "local time = redis.call('TIME')\n"
    "local now = time[1] * 1000000 + time[2]\n"
    "local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')\n"
    "local run = (string.match(server, 'run_id:(%x+)') or '') .. ':'\n"
    "  .. (string.match(replication, 'master_replid:(%x+)') or '')\n"
    /* One that takes writes would be a second pool. A word of ours: before Redis 7 that of a command that a
     * replica refuses stands somewhere in the error of the script. */
    "if ARGV[1] ~= 'show' and string.find(replication, 'role:slave', 1, true) then\n"
    "  return redis.error_reply('READONLY this server is a replica')\n"
    "end\n"
    "local key = KEYS[1]\n"
    "local gone = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == 'gone'\n"
    "local f = gone and {} or redis.call('HMGET', key, 'kind', 'total', 'window', 'burst', 'base', 'epoch', "
    "'began', 'of',\n"
    "  'used', 'returned', 'count', 'run', 'last', 'kept', 'vouched', 'wait')\n"
    "local next = terms_of(f[1], f[2], f[3], f[4], f[5])\n"
    "local e = read_terms(f[8] or '')\n"
    "if e and next and e.kind ~= next.kind then next = nil end\n" /* a bucket stays one */
    "local epoch = whole(f[6], 1, now + " REDIS_EPOCH_AHEAD_TEXT ")\n"
    "local used, returned = whole(f[9], 0, 1e15), whole(f[10], 0, 1e15)\n"
    "local count, last = whole(f[11], 0, 1e9), whole(f[13], 0, 9e15)\n"
    "local began = f[7] == '-1' and -1 or whole(f[7], 0, 9e15)\n"
    "if e then\n"
    "  e.chunk = whole(string.match(f[8], ' (%d+)$'), 1, e.kind == 'quota' and e.total or e.burst / 2)\n"
    "end\n"
    "local sound = e and e.chunk and epoch and used and returned and count and last and began and f[12]\n"
    "  and returned <= used and (e.kind == 'quota' or began >= 0)\n"
    /* us of a ticket's life, and until what was given out under such terms is dead */
    "local function life(t) return (t.burst - (t.chunk or t.base)) * t.window / t.total / 1000 end\n"
    "local function ahead(t) return math.min(life(t) / 2, 1000000) end\n"
    "local function lives(t)\n"
    "  return t.kind == 'quota' and t.window / 1000 or 1.01 * (life(t) + ahead(t)) + 1000\n"
    "end\n"
    /* The same for all that this pool has given out. A bucket may itself wait for one before it; a mark stays
     * for twice as long, and a second. */
    "local living = whole(f[16], 0, 9e15) or 0\n"
    "if gone then living = math.max(0, redis.call('PTTL', key) - 1000) * 500 end\n"
    "if e then living = math.max(living, lives(e)) end\n"
    "if e and e.kind == 'bucket' and began and last then living = math.max(living, began - last) end\n";

/* ---- orders ----------------------------------------------------------------------------------- */

static const char order_epochs[] =
    "local op, nonce, known, held = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'\n"
    "local named, chunks, chunk = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])\n"
    "local trust, given, seen = ARGV[8] == '1', read_terms(ARGV[9]), tonumber(ARGV[10])\n"
    "living = math.max(living, tonumber(ARGV[11]) / 1000)\n" /* as who asks knows */
    "local outcome, n, accepted, retry = 0, 0, 0, 0\n"
    /* us between two tickets of a bucket */
    "local function step(t) return t.chunk * t.window / t.total / 1000 end\n"
    "local fresh, certain = false, false\n"
    "local function begin(terms, c, void, origin)\n"
    "  local least, most = math.ceil(terms.total / 1e9), terms.total\n"
    "  if terms.kind == 'bucket' then least, most = 1, math.floor(terms.burst / 2) end\n"
    "  if c <= 0 then c = terms.base end\n"
    "  e = read_terms(terms.text)\n"
    "  e.chunk = math.max(1, math.min(math.max(c, least), most))\n"
    /* Where the clock is behind, and something was forgotten, others may know the next numbers: one far from
     * these. */
    "  epoch = math.max(now, (epoch or 0) + 1, known + 1)\n"
    "  if epoch > now and not certain then epoch = epoch + 1e9 + math.fmod(now, 1e9) end\n"
    "  used, returned, fresh = 0, 0, true\n"
    "  if e.kind == 'bucket' then\n"
    "    count = math.min(1e9, math.floor(2e18 / e.chunk))\n"
    "    began = math.max(0, math.min(math.ceil(origin), 9e15))\n"
    "  else\n"
    "    local rest = math.fmod(e.total, e.chunk)\n"
    "    count, began = (e.total - rest) / e.chunk + (rest > 0 and 1 or 0), now\n"
    "    if void then count = 0 end\n"
    "  end\n"
    "end\n"
    /* A bucket that is full now: `life` may be a little long, so the origin a little late. */
    "local function full(terms) return now - life({burst = terms.burst, window = terms.window,\n"
    "  total = terms.total, chunk = terms.base}) + 1 end\n"
    /* Nodes wait for the window of an empty epoch: it is no shorter than what was given out may live. */
    "local function doubt(terms)\n"
    "  local wait = math.max(living, lives(terms))\n"
    "  if terms.kind == 'quota' and wait > lives(terms) then\n"
    "    local window = string.format('%.0f', math.min(wait * 1000, 31622400e9))\n"
    "    terms = read_terms(string.gsub(terms.text, '^(%a+ %d+) %d+', '%1 ' .. window))\n"
    "  end\n"
    "  begin(terms, 0, true, now + wait)\n"
    "end\n"
    /* No units that a server before this one, or this one before it evicted something, gave out are alive. */
    "local function settled(terms)\n"
    "  local up = tonumber(string.match(server, 'uptime_in_seconds:(%d+)') or '0')\n"
    "  return up * 1000000 > 1.01 * math.max(living, lives(terms)) + 2000000\n"
    "    and string.find(redis.call('INFO', 'stats'), 'evicted_keys:0\\r', 1, true)\n"
    "    and string.find(replication, 'second_repl_offset:-1\\r', 1, true)\n"
    "end\n"
    "if sound then next = next or e end\n" /* not those of an empty window, which may be long */
    "if not sound then\n"
    "  local terms = next or given\n"
    "  if not terms then return redis.error_reply('WEIRTERMS these terms do not fit') end\n"
    "  local calm = trust or (not held and (f[15] == run or (redis.call('EXISTS', key) == 0\n"
    "    and settled(terms))))\n"
    "  if calm then begin(terms, 0, false, full(terms)) else doubt(terms) end\n"
    "  next = next or terms\n"
    "elseif known > epoch or f[12] ~= run or (known == epoch and seen > used) then\n"
    "  if not trust then doubt(next)\n"
    "  elseif known > epoch then begin(next, 0, false, full(next))\n"
    "  elseif e.kind == 'quota' then began = -1 end\n" /* an age by another server's clock is none */
    "elseif now < last then\n"
    "  if e.kind == 'bucket' then doubt(next) else began = -1 end\n"
    "end\n"
    "certain = true\n";

static const char order_quota[] =
    "local first = used\n"
    "if op == 'take' and e.kind == 'quota' then\n"
    "  n = math.max(0, math.min(chunks, count > 0 and count + returned - used or 0))\n"
    "  used = used + n\n"
    "elseif (op == 'turn' or op == 'return') and named ~= epoch then\n"
    "  outcome = 1\n"
    "elseif op == 'turn' and e.kind == 'quota' then\n"
    "  begin(next, next.base == e.base and chunk or 0, false, full(next))\n"
    "elseif op == 'return' and e.kind == 'quota' then\n"
    "  accepted = math.max(0, math.min(chunks, used - returned))\n"
    "  returned = returned + accepted\n"
    "end\n";

/* Tickets that have died, or soon will, are passed over: they were never given out. Those that have started
 * go out together, one that has not goes alone. Numbers that run out go on from a new origin, as if nothing
 * had happened; other terms begin when the next ticket would have died, or full if it has. */
static const char order_bucket[] =
    "if e.kind == 'bucket' and (op == 'take' or op == 'turn') and outcome == 0 and not fresh then\n"
    "  local ends = used * step(e) + life(e) - (now - began)\n"
    "  if next.text ~= e.text then\n"
    "    begin(next, 0, false, ends > 0 and now + ends + 1 or full(next))\n"
    "  elseif used >= count then\n"
    "    begin(next, 0, false, began + used * step(e) + 1)\n"
    "  elseif op == 'turn' and ends <= 0 then\n"
    "    begin(next, 0, false, full(next))\n"
    "  elseif op == 'turn' then\n"
    "    outcome, retry = 2, math.ceil(ends)\n"
    "  end\n"
    "end\n"
    "if op == 'take' and e.kind == 'bucket' then\n"
    "  local s, l, elapsed = step(e), life(e), now - began\n"
    "  local alive = math.floor((elapsed + l / 4 - l) / s) + 1\n"
    "  used = math.min(math.max(used, alive), count)\n"
    "  first = used\n"
    "  local starts = used * s - elapsed\n"
    "  if starts > ahead(e) or used >= count or chunks <= 0 then\n"
    "    retry = math.max(1, math.ceil(starts - ahead(e)))\n"
    "  else\n"
    "    n = math.max(1, math.min(math.floor(elapsed / s) + 1 - used, chunks, count - used))\n"
    "    used = used + n\n"
    "  end\n"
    "elseif op == 'turn' then\n"
    "  first = used\n"
    "end\n";

static const char order_end[] =
    "if gone then redis.call('DEL', key) end\n"
    "local of = e.text .. ' ' .. string.format('%.0f', e.chunk)\n"
    "redis.call('HSET', key, 'epoch', epoch, 'began', began, 'of', of, 'used', used, 'returned', returned,\n"
    "  'count', count, 'run', run, 'last', math.max(now, fresh and 0 or last))\n"
    "if fresh then\n"
    "  redis.call('HSET', key, 'kind', next.kind, 'total', string.format('%.0f', next.total), 'window',\n"
    "    string.match(next.text, '^%a+ %d+ (%d+)'), 'burst', string.format('%.0f', next.burst), 'base',\n"
    "    string.format('%.0f', next.base))\n"
    "  redis.call('HDEL', key, 'vouched', 'wait')\n"
    "end\n"
    "if f[14] ~= '1' then\n"
    "  local us = 3 * math.max(lives(e), e.window / 1000) + math.max(0, began - now)\n"
    "  redis.call('PEXPIRE', key, string.format('%.0f', math.min(3600000 + math.ceil(us / 1000), 1e15)))\n"
    "end\n"
    "return {nonce, outcome, epoch, of, now, began, first, n, returned, accepted,\n"
    "  e.kind == 'quota' and count == 0 and 1 or 0, math.min(retry, 31622400e6)}\n";

/* ---- `weir quota` ----------------------------------------------------------------------------- */

static const char quota_rest[] =
    "local op, nonce = ARGV[1], ARGV[2]\n"
    "local there = not gone and redis.call('EXISTS', key) == 1\n"
    "local asked = terms_of(ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])\n"
    "local note = ''\n"
    "local function keep(t)\n"
    "  redis.call('HSET', key, 'kind', t.kind, 'total', string.format('%.0f', t.total), 'window',\n"
    "    string.match(t.text, '^%a+ %d+ (%d+)'), 'burst', string.format('%.0f', t.burst), 'base',\n"
    "    string.format('%.0f', t.base), 'kept', '1')\n"
    "  redis.call('PERSIST', key)\n"
    "  next = t\n"
    "end\n"
    "if op == 'create' and not there then\n"
    "  if gone then\n"
    "    redis.call('DEL', key)\n"
    "    redis.call('HSET', key, 'wait', string.format('%.0f', math.min(living, 9e15)))\n"
    "  else\n"
    "    redis.call('HSET', key, 'vouched', run)\n"
    "  end\n"
    "  keep(asked)\n"
    "elseif op == 'set' and there then\n"
    "  keep(asked)\n"
    "elseif op == 'delete' and there then\n"
    "  if not e then living = math.max(living, next and lives(next) or 3.2e13) end\n"
    "  local ms = math.min(1000 + math.ceil(living / 500), 1e15)\n"
    "  redis.call('SET', key, 'gone', 'PX', string.format('%.0f', ms))\n"
    "end\n"
    "if there and not next then note = 'its total, window, burst or base are no numbers that fit' end\n"
    "if there and not sound and not f[15] then\n"
    "  note = 'it was damaged or written by hand: the next window begins empty'\n"
    "elseif there and (sound and f[12] or f[15]) ~= run then\n"
    "  note = 'this server was restarted, promoted or given its first replica: the next window begins '\n"
    "    .. 'empty, unless nodes say failover=trust'\n"
    "end\n"
    "local memory = redis.call('INFO', 'memory')\n"
    "if note == '' and tonumber(string.match(memory, 'maxmemory:(%d+)') or '0') > 0\n"
    "  and not string.find(memory, 'maxmemory_policy:noeviction', 1, true) then\n"
    "  note = 'this Redis evicts keys, and a pool that is evicted loses a window: '\n"
    "    .. 'set maxmemory-policy noeviction'\n"
    "end\n"
    "return {nonce, there and 1 or 0, next and next.text or '', sound and f[8] or '', sound and epoch or 0,\n"
    "  now, sound and began or -1, sound and used or 0, sound and returned or 0,\n"
    "  sound and e.kind == 'quota' and count == 0 and 1 or 0, note}\n";

/* ---- exact mode (exact.h) --------------------------------------------------------------- */

static const char exact[] =
    "local kind, n, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])\n"
    "local period, burst = tonumber(ARGV[4]), tonumber(ARGV[5])\n"
    "local now\n"
    "if ARGV[6] then now = tonumber(ARGV[6]) else\n"
    "  local time = redis.call('TIME')\n"
    "  now = time[1] * 1000000 + time[2]\n"
    "end\n"
    "local text = redis.call('GET', KEYS[1])\n"
    "local level, since = string.match(text or '0 0', '^(%d+) (%d+)$')\n"
    "level, since = tonumber(level or 0), tonumber(since or 0)\n"
    "local allowed, left = 0, 0\n"
    "if kind == 'bucket' then\n"
    "  local passed = math.max(now - since, 0)\n"
    "  if passed > level / count then level = 0 else level = math.max(0, level - passed * count) end\n"
    "  since = math.max(since, now)\n"
    "  if n <= burst and level + n * period <= burst * period then\n"
    "    allowed, level = 1, level + n * period\n"
    "  end\n"
    "  left = math.ceil(level / count) + since - now\n"
    "else\n"
    "  local window = math.max(now - math.fmod(now, period), since)\n"
    "  if window > since then level, since = 0, window end\n"
    "  if level + n <= count then allowed, level = 1, level + n end\n"
    "  left = since + period - now\n"
    "end\n"
    "if allowed == 1 then\n"
    "  local text = string.format('%.0f %.0f', level, since)\n"
    "  local ms = ARGV[6] and 3600000 or math.floor(left / 1000) + 1\n"
    "  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', ms))\n"
    "end\n"
    "return {allowed, now, level, since}\n";

/* ---- put together ----------------------------------------------------------------------------- */

void weir_redis_script(struct buffer *text, enum redis_script script)
{
    static const char *const parts[REDIS_SCRIPTS][6] = {
        [REDIS_ORDER] = {common, order_epochs, order_quota, order_bucket, order_end},
        [REDIS_QUOTA] = {common, quota_rest},
        [REDIS_EXACT] = {exact},
    };
    for (const char *const *part = parts[script]; *part; part++)
        buffer_put(text, *part, strlen(*part));
}
