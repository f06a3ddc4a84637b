package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/api"
)

// The corpus of the event reader, over HTTP: each is answered with the code it says, and nothing is stored.
func TestBadEventsStoreNothing(t *testing.T) {
	t.Parallel()
	g := setup(t)
	before := g.rows(t)
	refused := 0
	for _, c := range eventCorpus(t) {
		if c.Code == "" {
			continue
		}
		a := g.do(t, request{method: "POST", path: "/v1/events", token: g.acme.token, stream: bytes.NewReader(c.body(t))})
		if a.code() != c.Code || a.status != api.Kinds()[c.Code] {
			t.Errorf("%s: answered %d %s, want %s", c.Name, a.status, a.body, c.Code)
		}
		refused++
	}
	if refused < 100 {
		t.Errorf("only %d bodies were tried", refused)
	}
	if after := g.rows(t); after != before {
		t.Errorf("%d rows were stored", after-before)
	}
}

func TestAcceptedEventsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	g := setup(t)
	for _, c := range eventCorpus(t) {
		if c.Code != "" || c.Data == "" {
			continue
		}
		a := g.do(t, request{method: "POST", path: "/v1/events", token: g.acme.token, stream: bytes.NewReader(c.body(t))}).want(t, 202, "")
		read := g.get(t, g.acme.token, a.header.Get("Location")).want(t, 200, "")
		if !bytes.HasSuffix(read.body, []byte(`,"data":`+c.Data+`}`)) {
			t.Errorf("%s: read back as %s", c.Name, read.body)
		}
	}
}

// badEndpoint is an endpoint that is refused, and how.
type badEndpoint struct{ body, code, pointer string }

func badEndpoints() map[string]badEndpoint {
	all := map[string]badEndpoint{
		"nothing":                      {`{}`, "validation_failed", "/url"},
		"a list":                       {`[]`, "validation_failed", ""},
		"null":                         {`null`, "validation_failed", ""},
		"an unknown field":             {`{"url":"https://a.example/","urls":1}`, "validation_failed", "/urls"},
		"a field in another case":      {`{"url":"https://a.example/","Types":["a"]}`, "validation_failed", "/Types"},
		"a field twice":                {`{"url":"https://a.example/","url":"https://b.example/"}`, "validation_failed", "/url"},
		"a field twice, once escaped":  {`{"url":"https://a.example/","u\u0072l":"https://b.example/"}`, "validation_failed", "/url"},
		"a header twice":               {`{"url":"https://a.example/","headers":{"a":"1","a":"2"}}`, "validation_failed", "/headers/a"},
		"a header twice, in two cases": {`{"url":"https://a.example/","headers":{"a":"1","A":"2"}}`, "validation_failed", "/headers/a"},
		"no types":                     {`{"url":"https://a.example/","types":[]}`, "validation_failed", "/types"},
		"no scopes":                    {`{"url":"https://a.example/","scopes":[]}`, "validation_failed", "/scopes"},
		"types that are null":          {`{"url":"https://a.example/","types":null}`, "validation_failed", "/types"},
		"a type that is a number":      {`{"url":"https://a.example/","types":[1]}`, "validation_failed", "/types/0"},
		"a glob that is empty":         {`{"url":"https://a.example/","types":["a",""]}`, "validation_failed", "/types/1"},
		"a glob that is too long":      {`{"url":"https://a.example/","types":["` + strings.Repeat("x", 129) + `"]}`, "validation_failed", "/types/0"},
		"51 globs":                     {`{"url":"https://a.example/","types":[` + strings.Repeat(`"a",`, 50) + `"b"]}`, "validation_failed", "/types"},
		"21 headers":                   {`{"url":"https://a.example/","headers":{` + numbered(`"h%d":"x"`, 21) + `}}`, "validation_failed", "/headers"},
		"a header that is too long":    {`{"url":"https://a.example/","headers":{"a":"` + strings.Repeat("x", 4097) + `"}}`, "validation_failed", "/headers/a"},
		"a timeout that is too long":   {`{"url":"https://a.example/","timeout_ms":30001}`, "validation_failed", "/timeout_ms"},
		"a timeout with a fraction":    {`{"url":"https://a.example/","timeout_ms":1000.5}`, "validation_failed", "/timeout_ms"},
		"a timeout beyond all numbers": {`{"url":"https://a.example/","timeout_ms":1e400}`, "validation_failed", ""},
		"a timeout of text":            {`{"url":"https://a.example/","timeout_ms":"1000"}`, "validation_failed", "/timeout_ms"},
		"nothing in flight":            {`{"url":"https://a.example/","max_in_flight":0}`, "validation_failed", "/max_in_flight"},
		"a schedule that goes back":    {`{"url":"https://a.example/","schedule":[10,5]}`, "validation_failed", "/schedule/1"},
		"a schedule of years":          {`{"url":"https://a.example/","schedule":[9223372036854775807]}`, "validation_failed", "/schedule/0"},
		"a secret that is too short":   {`{"url":"https://a.example/","secret":"whsec_AAAA"}`, "validation_failed", "/secret"},
		"a secret without its prefix":  {`{"url":"https://a.example/","secret":"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`, "validation_failed", "/secret"},
		"a uid with a dot":             {`{"url":"https://a.example/","uid":"a.1"}`, "validation_failed", "/uid"},
		"metadata that is a list":      {`{"url":"https://a.example/","metadata":[]}`, "validation_failed", "/metadata"},
		"metadata of numbers":          {`{"url":"https://a.example/","metadata":{"a/b":1}}`, "validation_failed", "/metadata/a~1b"},
		"a NUL in the description":     {`{"url":"https://a.example/","description":"a\u0000b"}`, "validation_failed", "/description"},
		"20,000 unknown fields":        {`{"url":"https://a.example/",` + numbered(`"%d":0`, 20_000) + `}`, "validation_failed", "*"},
		"two values":                   {`{"url":"https://a.example/"}{}`, "malformed_json", ""},
		"no JSON":                      {`url=https://a.example/`, "malformed_json", ""},
		"bad UTF-8":                    {"{\"url\":\"https://a.example/\xff\"}", "malformed_json", ""},
		"129 levels":                   {`{"metadata":` + strings.Repeat(`{"a":`, 129) + `1` + strings.Repeat(`}`, 130), "validation_failed", ""},
	}
	for _, g := range []string{"a..b", ".a", "a.", "a/b", "***", "a**", "**.**.**", "a*b*c", "[ab]", "{a,b}", "a?", "a b", "ä", `a\\.b`} {
		all["the glob "+g] = badEndpoint{fmt.Sprintf(`{"url":"https://a.example/","types":["ok","%s"]}`, g), "glob_invalid", "/types/1"}
	}
	for _, g := range []string{"a//b", "/a", "a.b", "a**/b"} {
		all["the scope glob "+g] = badEndpoint{fmt.Sprintf(`{"url":"https://a.example/","scopes":["%s"]}`, g), "glob_invalid", "/scopes/0"}
	}
	for _, h := range []string{`"a":"x\r\nX-Evil: 1"`, `"a":"x\ny"`, `"a":"x\u0000"`, `"a b":"x"`, `"":"x"`, `"a\n":"x"`, `"webhook-signature":"x"`,
		`"Webhook-Id":"x"`, `"HOST":"x"`, `"connection":"x"`, `"Transfer-Encoding":"x"`, `"content-length":"1"`, `"proxy-authorization":"x"`} {
		all["the header "+h] = badEndpoint{`{"url":"https://a.example/","headers":{` + h + `}}`, "validation_failed", "*"}
	}
	return all
}

func numbered(format string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

func TestBadEndpointsStoreNothing(t *testing.T) {
	t.Parallel()
	g := setup(t)
	before := g.rows(t)
	for name, bad := range badEndpoints() {
		var problem api.Problem
		a := g.post(t, g.acme.token, "/v1/endpoints", bad.body)
		a.into(t, &problem)
		var pointers []string
		if problem.Errors != nil {
			for _, e := range *problem.Errors {
				pointers = append(pointers, *e.Pointer)
			}
		}
		if len(pointers) > 20 {
			t.Errorf("%s: %d fields are told of", name, len(pointers))
		}
		if problem.Code != bad.code || bad.pointer != "" && bad.pointer != "*" && !slices.Equal(pointers, []string{bad.pointer}) {
			t.Errorf("%s: answered %s, want %s about %s", name, a.body, bad.code, bad.pointer)
		}
	}
	for _, u := range badURLs() {
		a := g.post(t, g.acme.token, "/v1/endpoints", fmt.Sprintf(`{"url":%s}`, u))
		if a.status != 422 || !strings.Contains(string(a.body), `"pointer":"/url"`) {
			t.Errorf("the URL %s: answered %d %s", u, a.status, a.body)
		}
		a.lacks(t, "s3cr3t")
	}
	if after := g.rows(t); after != before {
		t.Errorf("%d rows were stored", after-before)
	}
}

// badURLs are URLs of every wrong kind, as JSON.
func badURLs() []string {
	return []string{`""`, `" "`, `"x"`, `"/x"`, `"//h/x"`, `"http:///x"`, `"javascript:alert(1)"`, `"file:///etc/passwd"`, `"ftp://a.example/"`,
		`"http://a.example/"`, `"https://u:s3cr3t@a.example/"`, `"https://a.example/#f"`, `"https://a.example:0/"`, `"https://a.example:65536/"`,
		`"https://a.example:99999/"`, `"https://a.example:22/"`, `"https://localhost/"`, `"https://localhost./"`, `"https://127.0.0.1/"`, `"https://127.1/"`,
		`"https://2130706433/"`, `"https://0/"`, `"https://10.0.0.5/"`, `"https://169.254.169.254/latest/"`, `"https://169.254.169.254./"`, `"https://[::1]/"`,
		`"https://[::ffff:127.0.0.1]/"`, `"https://[fd00:ec2::254]/"`, `"https://[fe80::1%25eth0]/"`, `"https://[example.com]/"`, `"https://127。0。0。1/"`,
		`"https://a.example/\u0000"`, `"https://a.example/\r\n"`, `"https://a\\@b.example/"`, `"https://a.example/\u200b"`, `1`, `null`, `["https://a.example/"]`,
		`"https://a.example/` + strings.Repeat("x", 2048) + `"`}
}

// Every parameter of every operation, with what breaks parsers and validators: always a clear 4xx.
func TestHostileParameters(t *testing.T) {
	t.Parallel()
	g := setup(t)
	before := g.rows(t)
	hostile := []string{"%00", "[", "a[b]=1", "%ff", "%c0%80", "%", "%zz", ";", "-1", "0", "201", "1e9", "9999999999999999999999", "NaN", "null", "true", "{}", "[]",
		"%27%20or%201=1--", "..%2f..%2fetc", strings.Repeat("x", 100_000), strings.Repeat("%2a", 64), "2026-13-01T00:00:00Z", "\u202e", "a,b"}
	for _, o := range g.contract.operations {
		token := g.acme.token
		if o.audience(g.contract.doc) == "operatorToken" {
			token = g.operator
		}
		body := exampleBody(t, o)
		var queries []string
		for _, p := range o.Parameters {
			if p.Value.In == "query" {
				queries = append(queries, p.Value.Name)
			}
		}
		for _, text := range hostile {
			path := fillPath(o.path, "x")
			if strings.Contains(o.path, "{") {
				g.hostile(t, request{method: o.method, path: fillPath(o.path, strings.ReplaceAll(text, "/", "%2f")), token: token, body: body})
				g.hostile(t, request{method: o.method, path: fillPath(o.path, "uid:"+text), token: token, body: body})
			}
			for _, name := range queries {
				g.hostile(t, request{method: o.method, path: path + "?" + name + "=" + text + "&" + name + "[x]=1", token: token, body: body})
				g.hostile(t, request{method: o.method, path: path + "?" + name + "=" + text + "&" + name + "=" + text, token: token, body: body})
			}
			g.hostile(t, request{method: o.method, path: path + "?" + text, token: token, body: body})
			if len(text) < 1000 {
				h := http.Header{"If-Match": {text}, "If-None-Match": {text}, "X-Request-Id": {text}, "Traceparent": {text}}
				g.hostile(t, request{method: o.method, path: path + "?unknown=1", token: token, body: body, header: h})
			}
		}
	}
	if after := g.rows(t); after != before {
		t.Errorf("%d rows were stored", after-before)
	}
	for _, line := range g.log.lines(t) {
		if line["level"] == "ERROR" {
			t.Errorf("the log has an error: %v", line)
		}
	}
}

// hostile makes a request over the wire that a client's URL parser would not let pass.
func (g *gateway) hostile(t *testing.T, r request) {
	t.Helper()
	base := g.public.URL
	if o := g.contract.find(r.method, r.path); o != nil && o.ops() {
		base = g.ops.URL
	}
	req, err := http.NewRequest(r.method, base, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(r.path, "?")
	req.URL = &url.URL{Scheme: "http", Host: strings.TrimPrefix(base, "http://"), Opaque: path, RawQuery: query}
	req.Header = r.header
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %.80q: %v", r.method, r.path, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	// What can't be a request at all is answered by net/http; a filter may be a strange but possible one.
	if res.StatusCode >= 500 || res.StatusCode < 400 && r.method != "GET" {
		t.Errorf("%s %.120q: %d %.300s", r.method, r.path, res.StatusCode, body)
	}
}

// exampleBody is a body that the contract has as an example, or empty.
func exampleBody(t *testing.T, o *described) string {
	t.Helper()
	if o.RequestBody == nil {
		return ""
	}
	media := o.RequestBody.Value.Content.Get("application/json")
	example := media.Example
	for _, name := range slices.Sorted(maps.Keys(media.Examples)) {
		example = media.Examples[name].Value.Value
		break
	}
	text, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fillPath puts a text in place of the parameters of a path.
func fillPath(template, text string) string {
	parts := strings.Split(template, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = text
		}
	}
	return strings.Join(parts, "/")
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	g := setup(t)
	before := g.rows(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/merge-patch+json", "application/json; charset=utf-16",
		"application/json; charset=utf-8; x=y", "application/json;", "application/jsonx", "multipart/form-data; boundary=x", "nonsense/"} {
		for _, o := range g.contract.operations {
			if o.RequestBody == nil || kind == "application/json;" {
				continue
			}
			token := g.acme.token
			if o.audience(g.contract.doc) == "operatorToken" {
				token = g.operator
			}
			g.do(t, request{method: o.method, path: fillPath(o.path, "x"), token: token, body: exampleBody(t, o),
				header: http.Header{"Content-Type": {kind}}}).want(t, 415, "unsupported_media_type")
		}
	}
	body := `{"type":"a","data":1}`
	g.do(t, request{method: "POST", path: "/v1/events", token: g.acme.token, body: body, header: http.Header{"Content-Encoding": {"gzip"}}}).want(t, 415, "unsupported_media_type")
	if after := g.rows(t); after != before {
		t.Errorf("%d rows were stored", after-before)
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\""} {
		g.do(t, request{method: "POST", path: "/v1/events", token: g.acme.token, body: body, header: http.Header{"Content-Type": {kind}}}).want(t, 202, "")
	}
}

// endless is a body without an end, and counts what is read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func TestSizes(t *testing.T) {
	t.Parallel()
	g := setup(t)
	for _, o := range g.contract.operations {
		if o.RequestBody == nil {
			continue
		}
		token, limit := g.acme.token, 256<<10
		if o.audience(g.contract.doc) == "operatorToken" {
			token = g.operator
		}
		switch o.OperationID {
		case "postEvent":
			limit = 288 << 10
		case "postEvents":
			limit = 1 << 20
		}
		path := fillPath(o.path, "x")
		whole := exampleBody(t, o)
		padded := whole + strings.Repeat(" ", limit-len(whole))
		if a := g.do(t, request{method: o.method, path: path, token: token, body: padded}); a.status == 413 {
			t.Errorf("%s refuses a body of exactly its limit: %s", o.OperationID, a.body)
		}
		a := g.do(t, request{method: o.method, path: path, token: token, body: padded + " "}).want(t, 413, "payload_too_large")
		if !strings.Contains(string(a.body), fmt.Sprint(limit)) {
			t.Errorf("%s does not name its limit: %s", o.OperationID, a.body)
		}
		stream := new(endless)
		a = g.do(t, request{method: o.method, path: path, token: token, stream: stream}).want(t, 413, "payload_too_large")
		if !a.closed || stream.read.Load() > 64<<20 {
			t.Errorf("%s reads on: %d bytes, the connection is closed: %v", o.OperationID, stream.read.Load(), a.closed)
		}
	}
}

// Many large requests must not cost more memory than their limits.
func TestDeepNestingIsCheap(t *testing.T) {
	t.Parallel()
	g := setup(t)
	body := `{"type":"a","data":` + strings.Repeat("[", 140_000) + strings.Repeat("]", 140_000) + `}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50 {
		g.post(t, g.acme.token, "/v1/events", body).want(t, 422, "validation_failed")
	}
	runtime.ReadMemStats(&after)
	// The test's own side of the wire is in it.
	if per := (after.TotalAlloc - before.TotalAlloc) / 50; per > 8*uint64(len(body)) {
		t.Errorf("each takes %d bytes of memory for %d", per, len(body))
	}
}
