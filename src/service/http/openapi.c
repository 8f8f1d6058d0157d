/* SPDX-License-Identifier: MIT */
/*
 * The description is made from the table that requests are run by, so it cannot tell another story.
 */
#include "service/http/openapi.h"

#include <stdio.h>

#include "http/json.h"
#include "service/http/endpoints.h"
#include "weir.h"

static void put_text(struct buffer *out, const char *text)
{
    weir_json_put_string(out, text, strlen(text));
}

/* ---- schemas of parameters ---- */

static void put_enum(struct buffer *out, const char *values)
{
    weir_buffer_print(out, "{\"type\":\"string\",\"enum\":[");
    for (const char *at = values; *at;) {
        size_t len = strcspn(at, "|");
        weir_json_put_string(out, at, len);
        at += len + (at[len] == '|');
        buffer_put(out, ",", *at != '\0');
    }
    weir_buffer_print(out, "]}");
}

#define SCHEMA_NUMBER "{\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991}"

#define SCHEMA_UNITS "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000000}"

static void put_schema(struct buffer *out, const struct param *param)
{
    switch (param->kind) {
    case PARAM_POLICY:
        weir_buffer_print(out, "{\"type\":\"string\",\"minLength\":1,\"maxLength\":63}");
        return;
    case PARAM_KEY:
        weir_buffer_print(out, "{\"type\":\"string\",\"maxLength\":4096}");
        return;
    case PARAM_TEXT:
        weir_buffer_print(out, "{\"type\":\"string\"}");
        return;
    case PARAM_CHOICE:
        put_enum(out, param->values);
        return;
    case PARAM_NUMBER:
        weir_buffer_print(out, strcmp(param->name, "n") == 0 ? SCHEMA_UNITS : SCHEMA_NUMBER);
        return;
    case PARAM_NUMBERS:
        weir_buffer_print(out, "{\"oneOf\":[" SCHEMA_NUMBER ",{\"type\":\"array\",\"items\":" SCHEMA_NUMBER
                               ",\"minItems\":1,\"maxItems\":8}]}");
        return;
    case PARAM_FLAG:
        weir_buffer_print(out, "{\"type\":\"boolean\"}");
        return;
    case PARAM_PAIRS:
        weir_buffer_print(out, "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Pair\"},"
                               "\"minItems\":1,\"maxItems\":8}");
        return;
    }
}

static bool is_in_path(const struct endpoint *endpoint, const struct param *param)
{
    return (endpoint->place >= PLACE_POLICY && param->kind == PARAM_POLICY) ||
           (endpoint->place >= PLACE_KEY && param->kind == PARAM_KEY);
}

static bool has_body(const struct endpoint *endpoint)
{
    return endpoint->method == HTTP_POST || endpoint->method == HTTP_PUT;
}

/* ---- operations ---- */

static void put_parameter(struct buffer *out, const struct param *param, const char *place, bool required)
{
    weir_buffer_print(out, "{\"name\":\"%s\",\"in\":\"%s\",\"required\":%s,\"description\":", param->name,
                      place, required ? "true" : "false");
    put_text(out, param->summary);
    weir_buffer_print(out, ",\"schema\":");
    put_schema(out, param);
    weir_buffer_print(out, "},");
}

static void put_parameters(struct buffer *out, const struct endpoint *endpoint)
{
    weir_buffer_print(out, ",\"parameters\":[");
    for (const struct param *param = endpoint->params; param->name; param++)
        if (is_in_path(endpoint, param))
            put_parameter(out, param, "path", true);
        else if (!has_body(endpoint) && param->kind != PARAM_PAIRS)
            put_parameter(out, param, "query", param->required);
    if (endpoint->flags & ENDPOINT_DECIDES)
        weir_buffer_print(out,
                          "{\"name\":\"status\",\"in\":\"query\",\"description\":\"The status of a refusal\","
                          "\"schema\":{\"type\":\"integer\",\"enum\":[429,403,200]}},"
                          "{\"name\":\"headers\",\"in\":\"query\",\"description\":\"Which RateLimit fields\","
                          "\"schema\":{\"type\":\"string\",\"enum\":[\"ietf\",\"ietf-06\",\"x\",\"x-epoch\","
                          "\"none\"]}},");
    if (buffer_len(out) > 0 && out->bytes[out->end - 1] == ',')
        out->end--;
    weir_buffer_print(out, "]");
}

/* Fields that `pairs` stands for are required only without it, which JSON Schema says by anyOf. */
static void put_body(struct buffer *out, const struct endpoint *endpoint)
{
    bool any = false, pairs = false;
    weir_buffer_print(out,
                      ",\"requestBody\":{\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\","
                      "\"additionalProperties\":false,\"properties\":{");
    for (const struct param *param = endpoint->params; param->name; param++) {
        if (is_in_path(endpoint, param))
            continue;
        weir_buffer_print(out, "%s\"%s\":", any ? "," : "", param->name);
        put_schema(out, param);
        if (param->kind == PARAM_KEY)
            weir_buffer_print(out, ",\"key_b64\":{\"type\":\"string\",\"contentEncoding\":\"base64\"}");
        pairs |= param->kind == PARAM_PAIRS;
        any = true;
    }
    weir_buffer_print(out, "}%s[",
                      pairs ? ",\"anyOf\":[{\"required\":[\"pairs\"]},{\"required\":" : ",\"required\":");
    any = false;
    for (const struct param *param = endpoint->params; param->name; param++)
        if (param->required && !is_in_path(endpoint, param) && param->kind != PARAM_KEY) {
            weir_buffer_print(out, "%s\"%s\"", any ? "," : "", param->name);
            any = true;
        }
    weir_buffer_print(out, "]%s}}},\"required\":true}", pairs ? "}]" : "");
}

static void put_answers(struct buffer *out, const struct endpoint *endpoint)
{
    bool verdict = endpoint->flags & ENDPOINT_FULL;
    weir_buffer_print(out,
                      ",\"responses\":{\"200\":{\"description\":\"%s\",\"content\":{\"application/json\":{"
                      "\"schema\":%s}}}",
                      verdict ? "The verdict" : "The answer",
                      verdict ? "{\"$ref\":\"#/components/schemas/Verdict\"}" : "{}");
    if (endpoint->flags & ENDPOINT_DECIDES)
        weir_buffer_print(out, ",\"429\":{\"description\":\"Refused by a limit\",\"content\":{"
                               "\"application/problem+json\":{\"schema\":{\"$ref\":"
                               "\"#/components/schemas/Refusal\"}}}}");
    weir_buffer_print(out, ",\"default\":{\"description\":\"Nothing was decided\",\"content\":{"
                           "\"application/problem+json\":{\"schema\":{\"$ref\":"
                           "\"#/components/schemas/Problem\"}}}}}");
}

static const char *method_name(enum http_method method)
{
    return method == HTTP_GET      ? "get"
           : method == HTTP_PUT    ? "put"
           : method == HTTP_DELETE ? "delete"
                                   : "post";
}

static void put_operation(struct buffer *out, const struct endpoint *endpoint)
{
    static const char *const places[] = {[PLACE_NONE] = "", [PLACE_POLICY] = "Policy", [PLACE_KEY] = "Key"};
    weir_buffer_print(out, "\"%s\":{\"operationId\":\"%s-%s%s\",\"summary\":", method_name(endpoint->method),
                      method_name(endpoint->method), endpoint->name, places[endpoint->place]);
    put_text(out, endpoint->summary);
    put_parameters(out, endpoint);
    if (has_body(endpoint))
        put_body(out, endpoint);
    put_answers(out, endpoint);
    weir_buffer_print(out, "}");
}

/* Rows of one path are neighbours, or not: a path is written at its first row. */
static bool is_first_of_path(const struct endpoint *endpoint)
{
    for (const struct endpoint *row = weir_endpoints; row < endpoint; row++)
        if (row->place == endpoint->place && strcmp(row->name, endpoint->name) == 0)
            return false;
    return true;
}

static void put_path(struct buffer *out, const struct endpoint *endpoint)
{
    static const char *const behind[] = {
        [PLACE_NONE] = "", [PLACE_POLICY] = "/{policy}", [PLACE_KEY] = "/{policy}/{key}"};
    weir_buffer_print(out, "\"/v1/%s%s\":{", endpoint->name, behind[endpoint->place]);
    for (const struct endpoint *row = endpoint; row->name; row++)
        if (row->place == endpoint->place && strcmp(row->name, endpoint->name) == 0) {
            buffer_put(out, ",", row != endpoint);
            put_operation(out, row);
        }
    weir_buffer_print(out, "},");
}

/* ---- what is written once ---- */

#define NUMBER_OR_NULL "{\"type\":[\"integer\",\"null\"]}"

static const char schemas[] =
    "\"Pair\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"policy\":{\"type\":"
    "\"string\"},"
    "\"key\":{\"type\":\"string\"},\"key_b64\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":"
    "1}},"
    "\"required\":[\"policy\"]},"
    "\"Limit\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"count\":" NUMBER_OR_NULL
    ",\"window_ms\":" NUMBER_OR_NULL ",\"burst\":" NUMBER_OR_NULL ",\"used\":" NUMBER_OR_NULL
    ",\"remaining\":" NUMBER_OR_NULL ",\"reset_after_ms\":" NUMBER_OR_NULL
    ",\"retry_after_ms\":" NUMBER_OR_NULL
    "},\"required\":[\"name\",\"count\",\"window_ms\",\"burst\",\"used\","
    "\"remaining\",\"reset_after_ms\",\"retry_after_ms\"]},"
    "\"Verdict\":{\"type\":\"object\",\"properties\":{\"allowed\":{\"type\":\"boolean\"},"
    "\"remaining\":" NUMBER_OR_NULL ",\"retry_after_ms\":" NUMBER_OR_NULL
    ",\"reset_after_ms\":" NUMBER_OR_NULL
    ",\"limit\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"},\"count\":" NUMBER_OR_NULL
    ",\"window_ms\":" NUMBER_OR_NULL ",\"burst\":" NUMBER_OR_NULL ",\"used\":" NUMBER_OR_NULL
    ",\"limits\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Limit\"}}},"
    "\"required\":[\"allowed\",\"remaining\",\"retry_after_ms\",\"reset_after_ms\",\"limit\",\"reason\","
    "\"count\","
    "\"window_ms\",\"burst\",\"used\",\"limits\"]},"
    "\"Problem\":{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\"},\"title\":{\"type\":"
    "\"string\"},"
    "\"status\":{\"type\":\"integer\"},\"code\":{\"type\":\"string\"},\"detail\":{\"type\":\"string\"}},"
    "\"required\":[\"type\",\"title\",\"status\",\"detail\"]},"
    "\"Refusal\":{\"allOf\":[{\"$ref\":\"#/components/schemas/Problem\"},{\"$ref\":"
    "\"#/components/schemas/Verdict\"}],\"properties\":{\"violated-policies\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"string\"}}}}";

static const char batch_path[] =
    "\"/v1/batch\":{\"post\":{\"operationId\":\"post-batch\",\"summary\":\"Up to 1000 requests, answered in "
    "their "
    "order\",\"requestBody\":{\"required\":true,\"content\":{\"application/"
    "json\":{\"schema\":{\"type\":\"object\","
    "\"additionalProperties\":false,\"required\":[\"requests\"],\"properties\":{\"requests\":{\"type\":"
    "\"array\","
    "\"maxItems\":1000,\"items\":{\"type\":\"object\",\"properties\":{\"op\":{\"enum\":[\"take\",\"peek\","
    "\"give\","
    "\"charge\",\"reset\",\"reserve\",\"commit\",\"cancel\"]}}}}}}}}},\"responses\":{\"200\":{"
    "\"description\":"
    "\"The "
    "answers\",\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"answers\"],"
    "\"properties\":{\"answers\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}}}}}},\"default\":{"
    "\"description\":\"Nothing was decided\",\"content\":{\"application/problem+json\":{\"schema\":{\"$ref\":"
    "\"#/components/schemas/Problem\"}}}}}}}";

void weir_openapi_write(struct buffer *out)
{
    weir_buffer_print(
        out,
        "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"weir\",\"version\":\"%s\",\"summary\":\"Rate "
        "limits over HTTP\",\"license\":{\"name\":\"MIT\",\"identifier\":\"MIT\"}},"
        "\"security\":[{},{\"basic\":[]},{\"bearer\":[]}],\"paths\":{",
        weir_version());
    for (const struct endpoint *row = weir_endpoints; row->name; row++)
        if (is_first_of_path(row))
            put_path(out, row);
    buffer_put(out, batch_path, sizeof batch_path - 1);
    weir_buffer_print(out, "},\"components\":{\"securitySchemes\":{\"basic\":{\"type\":\"http\",\"scheme\":"
                           "\"basic\"},\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"}},\"schemas\":{");
    buffer_put(out, schemas, sizeof schemas - 1);
    weir_buffer_print(out, "}}}");
}
