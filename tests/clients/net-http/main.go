// SPDX-License-Identifier: MIT
//
// net/http against a server; story.py says what happens.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

var base = "http://127.0.0.1:" + os.Getenv("WEIR_HTTP_PORT")

type answer struct {
	status int
	header http.Header
	body   map[string]interface{}
}

func expect(got, wanted interface{}) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		panic(fmt.Sprintf("%v, not %v", got, wanted))
	}
}

func askAs(user, password, method, path string, body io.Reader, fields ...string) answer {
	request, err := http.NewRequest(method, base+path, body)
	if err != nil {
		panic(err)
	}
	request.SetBasicAuth(user, password)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	got := answer{status: response.StatusCode, header: response.Header}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &got.body); err != nil {
			panic(err)
		}
	}
	return got
}

func ask(method, path, body string, fields ...string) answer {
	return askAs("default", "open sesame", method, path, strings.NewReader(body), fields...)
}

func connections() interface{} {
	return ask("GET", "/v1/info?section=stats", "").body["Stats"].(map[string]interface{})["total_connections_received"]
}

func decide() {
	expect(ask("PUT", "/v1/policies/client", `{"limits":"2/h","fresh":true}`).body["ok"], true)
	take := func(fields ...string) answer {
		return ask("POST", "/v1/take", `{"policy":"client","key":"user:42"}`, fields...)
	}
	expect(take().status, 200)
	expect(take("Expect", "100-continue").status, 200)
	refused := take()
	expect(refused.status, 429)
	seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
	expect(err == nil && 1700 < seconds && seconds <= 1800, true)
	expect(refused.header.Get("RateLimit-Policy"), `"client";q=2;w=3600`)
	expect(ask("GET", "/v1/take/client/user:42?n=3", "").header.Get("Retry-After"), "")
	expect(ask("GET", "/v1/take/client/%C3%A4%20b/c", "").body["allowed"], true)
	expect(ask("GET", "/v1/peek/client/ä%20b/c", "").body["used"], 1)
}

// In chunks, as a body whose length is not known.
func upload() {
	ask("PUT", "/v1/policies/many", `{"limits":"60/d","fresh":true}`)
	reader, writer := io.Pipe()
	go func() {
		fmt.Fprint(writer, `{"requests":[`)
		for i := 0; i < 99; i++ {
			fmt.Fprint(writer, `{"policy":"many","key":"user:42"},`)
		}
		fmt.Fprint(writer, `{"policy":"many","key":"user:42"}]}`)
		writer.Close()
	}()
	got := askAs("default", "open sesame", "POST", "/v1/batch", reader)
	allowed := 0
	for _, one := range got.body["answers"].([]interface{}) {
		if one.(map[string]interface{})["allowed"].(bool) {
			allowed++
		}
	}
	expect(allowed, 60)
}

func wait() {
	ask("PUT", "/v1/policies/pace", `{"limits":"20/s burst=1","fresh":true}`)
	start := time.Now()
	for i := 0; i < 3; i++ {
		expect(ask("POST", "/v1/acquire", `{"policy":"pace","key":"k","timeout_ms":5000}`).status, 200)
	}
	expect(time.Since(start) >= 100*time.Millisecond, true)
}

func mistakes() {
	expect(ask("GET", "/v1/take/nosuch/k", "").status, 404)
	expect(ask("DELETE", "/v1/take", "").header.Get("Allow"), "POST")
	expect(ask("HEAD", "/livez", "").status, 200)
	expect(askAs("default", "friend", "GET", "/v1/policies", nil).status, 401)
	expect(askAs("app", "secret", "GET", "/v1/take/api/user:43", nil).status, 200)
	expect(askAs("app", "secret", "GET", "/v1/take/api/org:7", nil).status, 403)
}

func main() {
	http.DefaultTransport.(*http.Transport).ExpectContinueTimeout = 10 * time.Second
	before := connections()
	decide()
	upload()
	wait()
	expect(connections(), before) // all on one connection
	mistakes()
	fmt.Println("restart")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	decide()
	fmt.Println("ok")
}
