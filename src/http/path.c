/* SPDX-License-Identifier: MIT */
#include "http/path.h"

#include "base/assert.h"
#include "base/text.h"
#include "http/uri.h"

/* Takes the next segment that is not empty from *rest. */
static bool next_segment(struct slice *rest, struct slice *segment)
{
    while (rest->len > 0 && rest->bytes[0] == '/')
        *rest = (struct slice){rest->bytes + 1, rest->len - 1};
    const char *slash = rest->len > 0 ? memchr(rest->bytes, '/', rest->len) : NULL;
    *segment = (struct slice){rest->bytes, slash ? (size_t)(slash - rest->bytes) : rest->len};
    *rest = (struct slice){rest->bytes + segment->len, rest->len - segment->len};
    return segment->len > 0;
}

static size_t count_slashes(const char *bytes, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += bytes[i] == '/';
    return count;
}

static const char *find_path_fault(struct slice text, const struct http_path *path, size_t len)
{
    if (len == SIZE_MAX)
        return "a % in the path is not followed by two hexadecimal digits";
    for (size_t i = 0; i < len; i++)
        if (path->bytes[i] == '\\' || (unsigned char)path->bytes[i] < ' ' || path->bytes[i] == 0x7F)
            return "the path has a backslash or control character";
    if (memchr(text.bytes, '#', text.len))
        return "the path has a #, which is not sent to servers";
    if (count_slashes(path->bytes, len) != count_slashes(text.bytes, text.len))
        return "the path has an encoded slash (%2F), which servers understand differently";
    return NULL;
}

bool weir_path_read(struct slice text, struct http_path *path, const char **why)
{
    *why = text.len > sizeof path->bytes           ? "the path is longer than 8192 bytes"
           : text.len == 0 || text.bytes[0] != '/' ? "the path does not begin with a slash"
                                                   : NULL;
    if (*why)
        return false;
    size_t len = weir_uri_decode(text, false, path->bytes);
    *why = find_path_fault(text, path, len);
    if (*why)
        return false;
    struct slice rest = {path->bytes, len}, segment;
    path->count = 0;
    while (next_segment(&rest, &segment)) {
        const char *parameters = memchr(segment.bytes, ';', segment.len); /* some servers ignore them */
        if (parameters)
            segment.len = (size_t)(parameters - segment.bytes);
        if (segment.len == 0 || slice_is(segment, "."))
            continue;
        if (slice_is(segment, "..")) {
            path->count -= path->count > 0;
            continue;
        }
        if (path->count == PATH_SEGMENTS_MAX) {
            *why = "the path has more than 128 segments";
            return false;
        }
        path->segments[path->count++] = segment;
    }
    return true;
}

bool weir_path_match(const struct http_path *path, const char *pattern)
{
    struct slice rest = {pattern, strlen(pattern)}, segment;
    size_t at = 0;
    for (; next_segment(&rest, &segment); at++) {
        if (slice_is(segment, "**"))
            return true;
        if (at == path->count)
            return false;
        const struct slice *have = &path->segments[at];
        ASSERT(have->len > 0 && !slice_is(*have, "..") && !memchr(have->bytes, '/', have->len));
        if (!slice_is(segment, "*") &&
            (segment.len != have->len || memcmp(segment.bytes, have->bytes, have->len) != 0))
            return false;
    }
    return at == path->count;
}

const char *weir_path_pattern_fault(const char *pattern)
{
    struct slice rest = {pattern, strlen(pattern)}, segment;
    if (pattern[0] != '/')
        return "a path begins with a slash: /api/*";
    if (rest.len > PATH_PATTERN_MAX)
        return "a path has at most 512 bytes";
    if (strpbrk(pattern, "?#"))
        return "a path has no query: write what comes before the ?";
    if (strchr(pattern, ';'))
        return "a path has no parameters: what follows a ; in a segment is ignored";
    if (strpbrk(pattern, "%\\"))
        return "a path is matched after decoding: write the character itself, not %20";
    for (bool last = false; next_segment(&rest, &segment);) {
        if (last)
            return "** stands at the end alone: /static/**";
        last = slice_is(segment, "**");
        if (slice_is(segment, ".") || slice_is(segment, ".."))
            return "a path has no . and .. segments: they are removed before it is matched";
        if (!last && memchr(segment.bytes, '*', segment.len) && segment.len > 1)
            return "* stands for a whole segment: /users/*/posts, or /static/** for all below";
    }
    return NULL;
}

/* ---- hosts ---- */

static bool is_host_byte(char byte)
{
    char lower = weir_text_lower(byte);
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("-_.:[]", byte));
}

bool weir_host_read(struct slice text, struct slice *host)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_host_byte(text.bytes[i]))
            return false;
    bool brackets = text.len > 0 && text.bytes[0] == '[';
    const char *end = text.len > 0 ? memchr(text.bytes, brackets ? ']' : ':', text.len) : NULL;
    if (brackets && !end)
        return false;
    *host = (struct slice){text.bytes, end ? (size_t)(end + brackets - text.bytes) : text.len};
    if (host->len > 1 && host->bytes[host->len - 1] == '.')
        host->len--;
    return host->len > 0 && host->len <= HOST_MAX;
}

bool weir_host_match(struct slice host, const char *pattern)
{
    size_t len = strlen(pattern);
    if (pattern[0] != '*')
        return weir_text_same(host.bytes, host.len, pattern);
    return host.len >= len && weir_text_same(host.bytes + host.len - (len - 1), len - 1, pattern + 1);
}

const char *weir_host_pattern_fault(const char *pattern)
{
    bool below = strncmp(pattern, "*.", 2) == 0;
    const char *name = below ? pattern + 2 : pattern;
    struct slice host, text = {name, strlen(name)};
    if (strchr(name, '*'))
        return "* stands in front of a host alone: *.example.com";
    if (!weir_host_read(text, &host) || host.len != text.len || name[0] == '.')
        return "a host is a name or address without a port: api.example.com or [::1]";
    return NULL;
}
