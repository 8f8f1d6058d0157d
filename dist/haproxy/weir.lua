-- SPDX-License-Identifier: MIT
--
-- Lets HAProxy (2.6 or newer) ask weir before it passes a request on. In haproxy.cfg:
--
--     global
--         lua-load /usr/share/weir/haproxy/weir.lua
--     frontend web
--         http-request lua.weir 127.0.0.1:9050
--
-- It asks at /auth and sets txn.weir_status: 200 allowed, 429 or 403 refused, 0 nothing was decided in time.
-- A refusal sets txn.weir_retry_after as well, if it has one. See docs/proxies/haproxy.md.

local TIMEOUT_MS = 40 -- for each of up to four tries
local TOKEN = nil -- of a user of weir.yaml, if it has users

-- What weir must hear from HAProxy alone, and what belongs to one connection only.
local left_out = {
    ["host"] = true, ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
    ["te"] = true, ["upgrade"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["trailer"] = true,
    ["x-original-uri"] = true, ["x-original-method"] = true, ["x-forwarded-uri"] = true,
    ["x-forwarded-method"] = true, ["x-forwarded-host"] = true, ["weir-authorization"] = true,
}

-- A list of values in their order: HAProxy's tables begin with 0.
local function values_of(field)
    local values = {}
    for at = 0, #field do
        values[#values + 1] = field[at]
    end
    return values
end

local function headers_of(txn)
    local headers = {}
    for name, field in pairs(txn.http:req_get_headers()) do
        if not left_out[name] then
            headers[name] = values_of(field)
        end
    end
    local forwarded = headers["x-forwarded-for"] or {}
    forwarded[#forwarded + 1] = txn.sf:src()
    headers["x-forwarded-for"] = forwarded
    headers["x-original-uri"] = { txn.sf:pathq() }
    headers["x-original-method"] = { txn.sf:method() }
    headers["x-forwarded-host"] = { txn.sf:req_hdr("host") }
    if TOKEN then
        headers["weir-authorization"] = { "Bearer " .. TOKEN }
    end
    return headers
end

core.register_action("weir", { "http-req" }, function(txn, address)
    local answer = core.httpclient():get({
        url = "http://" .. address .. "/auth",
        headers = headers_of(txn),
        timeout = TIMEOUT_MS,
    })
    local status = answer and answer.status or 0
    if status ~= 200 and status ~= 429 and status ~= 403 then
        status = 0
    end
    txn:set_var("txn.weir_status", status)
    local retry = answer and answer.headers and answer.headers["retry-after"]
    if status ~= 0 and status ~= 200 and retry then
        txn:set_var("txn.weir_retry_after", retry[0])
    end
end, 1)
