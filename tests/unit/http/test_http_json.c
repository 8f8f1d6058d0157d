/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "http/json.h"

TEST(an_object_is_read_member_by_member)
{
    char text[] = " {\"policy\" : \"a\\u00e4\\ud83d\\ude00\", \"n\":-12,\"more\":[1, {\"x\":[]}, null, "
                  "1.5e3],\"on\":true } ";
    struct json_reader reader;
    struct slice name, value;
    int64_t number = 0;
    bool on = false;
    weir_json_begin(&reader, text, strlen(text));
    CHECK(weir_json_enter(&reader, '{'));
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "policy"));
    CHECK(weir_json_string(&reader, &value) && slice_is(value, "a\xC3\xA4\xF0\x9F\x98\x80"));
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "n"));
    CHECK(weir_json_integer(&reader, &number) && number == -12);
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "more"));
    CHECK(weir_json_skip(&reader));
    CHECK(weir_json_member(&reader, &name) && slice_is(name, "on"));
    CHECK(weir_json_literal(&reader, &on) && on);
    CHECK(!weir_json_member(&reader, &name));
    CHECK(weir_json_end(&reader));
    CHECK_STR(reader.why, "");
}
