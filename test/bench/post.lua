-- SPDX-License-Identifier: Apache-2.0
-- For wrk: posts the files 0, 1, 2, ... of a folder in rotation, as an API server does, and prints one line of JSON:
--   wrk ... -s post.lua https://ADDR:PORT/PATH -- FOLDER COUNT [close]
-- With "close" every request has a connection, and so a handshake, of its own.
local requests = {}
local at = 0

function init(args)
	local headers = {
		["Accept"] = "application/json, */*",
		["Accept-Encoding"] = "gzip",
		["Content-Type"] = "application/json",
		["Host"] = wrk.headers["Host"],
		["User-Agent"] = "kube-apiserver-admission",
	}
	if args[3] == "close" then
		headers["Connection"] = "close"
	end
	for i = 0, tonumber(args[2]) - 1 do
		local file = assert(io.open(args[1] .. "/" .. i, "rb"))
		requests[i + 1] = wrk.format("POST", wrk.path .. "?timeout=10s", headers, file:read("*a"))
		file:close()
	end
end

function request()
	at = at % #requests + 1
	return requests[at]
end

function done(summary, latency, _)
	local errors = summary.errors
	io.write(string.format(
		'{"requests":%d,"us":%d,"bytes":%d,"errors":%d,"timeouts":%d,"p50":%d,"p99":%d,"max":%d}\n',
		summary.requests, summary.duration, summary.bytes, errors.connect + errors.read + errors.write + errors.status,
		errors.timeout, latency:percentile(50), latency:percentile(99), latency.max))
end
