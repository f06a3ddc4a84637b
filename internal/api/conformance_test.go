package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/api"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// Every operation is called for real, and the harness holds each answer to the contract. What the contract promises of
// success and of the things themselves must have been seen; 500 and 503 are made by TestFailures.
func TestConformance(t *testing.T) {
	t.Parallel()
	g := setup(t)
	t.Run("events", g.conformEvents)
	t.Run("endpoints", g.conformEndpoints)
	t.Run("secrets", g.conformSecrets)
	t.Run("batches", g.conformBatches)
	t.Run("idempotency keys", g.conformKeys)
	t.Run("deliveries", g.conformDeliveries)
	t.Run("tokens", g.conformTokens)
	t.Run("tenants", g.conformTenants)
	t.Run("discovery", g.conformDiscovery)
	t.Run("health", g.conformHealth)

	for _, o := range g.contract.operations {
		for status, response := range o.Responses.Map() {
			switch {
			case status == "500", status == "503" && response.Ref != "":
			case status == "401", status == "413", status == "415": // TestAuthorisation and TestBadInput make them of all
			case status == "403" && response.Ref == "#/components/responses/Forbidden":
			case !g.contract.seen[o.OperationID+" "+status]:
				t.Errorf("%s was never answered with %s", o.OperationID, status)
			}
		}
	}
}

func (g *gateway) conformEvents(t *testing.T) {
	const body = `{"type":"invoice.paid","subject":"invoice/991","uid":"u1","scopes":["project/42"],"data": {"n": 1.0, "h":"<&>"} }`
	posted := g.post(t, g.acme.token, "/v1/events", body).want(t, 202, "")
	var receipt api.Receipt
	posted.into(t, &receipt)
	if at := posted.header.Get("Location"); at != receipt.Links.Self || at != "/v1/events/"+receipt.ID || receipt.Duplicate {
		t.Errorf("the receipt is %+v at %s", receipt, at)
	}
	var again api.Receipt
	g.post(t, g.acme.token, "/v1/events", body).want(t, 200, "").into(t, &again)
	if again.ID != receipt.ID || !again.Duplicate || again.AcceptedAt != receipt.AcceptedAt {
		t.Errorf("the receipt of the repeated post is %+v, want that of %+v", again, receipt)
	}
	g.post(t, g.acme.token, "/v1/events", strings.Replace(body, "1.0", "1.00", 1)).want(t, 409, "event_uid_conflict")
	g.post(t, g.acme.token, "/v1/events", `{`).want(t, 400, "malformed_json")
	g.post(t, g.acme.token, "/v1/events", `{}`).want(t, 422, "validation_failed")
	g.post(t, g.scoped(t, g.acme, "events:read"), "/v1/events", body).want(t, 403, "scope_missing")

	read := g.get(t, g.acme.token, receipt.Links.Self).want(t, 200, "")
	if !strings.Contains(string(read.body), `"data":{"n": 1.0, "h":"<&>"}}`) {
		t.Errorf("the data was changed: %s", read.body)
	}
	g.get(t, g.scoped(t, g.acme, "events:read"), receipt.Links.Self).want(t, 200, "").lacks(t, `"data"`)
	g.get(t, g.acme.token, receipt.Links.Self+"?x=1").want(t, 400, "unknown_parameter")
	g.get(t, g.acme.token, "/v1/events/evt_00000000000000000000000000").want(t, 404, "not_found")

	for query, want := range map[string]int{
		"":                              1,
		"?type=invoice.*":               1,
		"?type=user.**":                 0,
		"?type=user.**&type=*.paid":     1,
		"?subject=invoice/991":          1,
		"?subject=other":                0,
		"?uid=u1":                       1,
		"?state=poisoned":               0,
		"?state=poisoned&state=pending": 1,
		"?since=2020-01-01T00:00:00Z":   1,
		"?until=2020-01-01T00:00:00Z":   0,
		"?since=2020-01-01T00:00:00%2B01:00&until=2999-01-01T00:00:00Z": 1,
	} {
		var list api.EventList
		g.get(t, g.acme.token, "/v1/events"+query).want(t, 200, "").into(t, &list)
		if len(list.Data) != want || list.HasMore {
			t.Errorf("GET /v1/events%s has %d events, want %d", query, len(list.Data), want)
		}
	}
	g.get(t, g.acme.token, "/v1/events?state=lost").want(t, 400, "parameter_invalid")
}

func (a answer) lacks(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(string(a.body), text) {
		t.Errorf("%q is in %s", text, a.body)
	}
}

func (g *gateway) conformEndpoints(t *testing.T) {
	var made api.EndpointCreated
	created := g.post(t, g.acme.token, "/v1/endpoints", `{"url":"https://hooks.example.com/in","uid":"main","types":["invoice.**"],
		"headers":{"authorization":"Bearer zzz"},"metadata":{"a":"1","b":"2"},"schedule":[5,300]}`).want(t, 201, "")
	created.into(t, &made)
	path := "/v1/endpoints/" + made.ID
	if created.header.Get("Location") != path || created.header.Get("ETag") != `"1"` || !strings.HasPrefix(made.Secret, "whsec_") {
		t.Errorf("created %+v with %v", made, created.header)
	}
	created.lacks(t, "zzz")
	g.post(t, g.acme.token, "/v1/endpoints", `{"url":"https://hooks.example.com/in","uid":"main"}`).want(t, 409, "uid_conflict")
	g.post(t, g.acme.token, "/v1/endpoints", `[`).want(t, 400, "malformed_json")
	g.post(t, g.acme.token, "/v1/endpoints", `{"url":"https://127.0.0.1/"}`).want(t, 422, "endpoint_url_blocked")
	narrow := g.narrow(t, g.acme, "project/*", "endpoints:write", "endpoints:read")
	g.post(t, narrow, "/v1/endpoints", `{"url":"https://hooks.example.com/in","scopes":["**"]}`).want(t, 403, "scope_not_grantable")
	g.do(t, request{method: "PATCH", path: path, token: narrow, body: `{"description":"mine"}`}).want(t, 403, "scope_not_grantable")
	var theirs api.EndpointCreated
	g.post(t, narrow, "/v1/endpoints", `{"url":"https://hooks.example.com/in"}`).want(t, 201, "").into(t, &theirs)
	if fmt.Sprint(theirs.Scopes) != "[project/*]" {
		t.Errorf("the endpoint of a narrow token has the scopes %v", theirs.Scopes)
	}

	read := g.get(t, g.acme.token, path).want(t, 200, "")
	read.lacks(t, made.Secret)
	g.get(t, g.acme.token, "/v1/endpoints/uid:main").want(t, 200, "")
	g.get(t, g.acme.token, "/v1/endpoints/uid%3Amain").want(t, 200, "")
	g.get(t, g.acme.token, "/v1/endpoints/uid:").want(t, 404, "not_found")
	g.get(t, g.acme.token, path+"?verbose").want(t, 400, "unknown_parameter")
	g.get(t, g.acme.token, "/v1/endpoints?state=enabled&health=unverified&uid=main").want(t, 200, "")
	g.get(t, g.acme.token, "/v1/endpoints?health=fine").want(t, 400, "parameter_invalid")

	for _, tag := range []string{`"1"`, `W/"1"`, `"0", "1"`, `*`} {
		g.do(t, request{method: "GET", path: path, token: g.acme.token, header: http.Header{"If-None-Match": {tag}}}).want(t, 304, "")
	}
	g.do(t, request{method: "GET", path: path, token: g.acme.token, header: http.Header{"If-None-Match": {`"2"`}}}).want(t, 200, "")

	patch := func(body, ifMatch string) answer {
		h := http.Header{}
		if ifMatch != "" {
			h.Set("If-Match", ifMatch)
		}
		return g.do(t, request{method: "PATCH", path: path, token: g.acme.token, body: body, header: h})
	}
	var e api.Endpoint
	patched := patch(`{"description":"x","types":["a.*","b"],"headers":{"Authorization":null,"X-Key":"k"},"metadata":{"a":null,"c":"3"},"timeout_ms":null,"schedule":null}`, `"1"`).want(t, 200, "")
	patched.into(t, &e)
	if patched.header.Get("ETag") != `"2"` || e.Description != "x" || fmt.Sprint(e.Types) != "[a.* b]" || fmt.Sprint(e.HeaderNames) != "[X-Key]" ||
		fmt.Sprint(e.Metadata) != "map[b:2 c:3]" || e.TimeoutMs != 15000 || e.Schedule != nil || *e.UID != "main" {
		t.Errorf("after the patch: %s", patched.body)
	}
	stale := patch(`{"description":"y"}`, `"1"`).want(t, 412, "precondition_failed")
	if stale.header.Get("ETag") != `"2"` {
		t.Errorf("the refused patch tells the ETag %s", stale.header.Get("ETag"))
	}
	patch(`{}`, `W/"2"`).want(t, 412, "precondition_failed")
	patch(`{}`, `"1", "2"`).want(t, 400, "parameter_invalid")
	patch(`{}`, `*`).want(t, 200, "")
	patch(`{"state":"paused"}`, "").want(t, 422, "validation_failed")
	patch(`{"uid":"x.y"}`, "").want(t, 422, "validation_failed")
	patch(`nope`, "").want(t, 400, "malformed_json")
	g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in","uid":"other"}`)
	patch(`{"uid":"other"}`, "").want(t, 409, "uid_conflict")
	g.do(t, request{method: "PATCH", path: "/v1/endpoints/uid:none", token: g.acme.token, body: `{}`}).want(t, 404, "not_found")

	g.do(t, request{method: "DELETE", path: path, token: g.acme.token, header: http.Header{"If-Match": {`"1"`}}}).want(t, 412, "precondition_failed")
	g.do(t, request{method: "DELETE", path: path + "?force", token: g.acme.token}).want(t, 400, "unknown_parameter")
	g.do(t, request{method: "DELETE", path: path, token: g.scoped(t, g.acme, "endpoints:read")}).want(t, 403, "scope_missing")
	g.do(t, request{method: "DELETE", path: path, token: g.acme.token, header: http.Header{"If-Match": {`"3"`}}}).want(t, 204, "")
	g.do(t, request{method: "DELETE", path: path, token: g.acme.token}).want(t, 404, "not_found")
	g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in","uid":"main"}`) // the name is free again
}

func (g *gateway) conformSecrets(t *testing.T) {
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/rotated"}`)
	rotate, previous := "/v1/endpoints/"+ep+"/secrets/rotate", "/v1/endpoints/"+ep+"/secrets/previous"
	var made api.EndpointCreated
	first := g.post(t, g.acme.token, rotate, `{}`).want(t, 200, "")
	first.into(t, &made)
	if first.header.Get("ETag") != `"2"` || len(made.Secrets) != 2 || made.Secrets[1].RetiresAt == nil || !strings.HasPrefix(made.Secret, "whsec_") {
		t.Errorf("rotated %s", first.body)
	}
	const brought = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	g.post(t, g.acme.token, rotate, `{"secret":"`+brought+`","grace_seconds":60}`).want(t, 200, "").into(t, &made)
	if made.Secret != brought || len(made.Secrets) != 3 {
		t.Errorf("rotated to %+v", made)
	}
	g.get(t, g.acme.token, "/v1/endpoints/"+ep).want(t, 200, "").lacks(t, strings.TrimPrefix(brought, "whsec_"))
	g.post(t, g.acme.token, rotate, `{}`).want(t, 409, "rotation_limit")
	g.post(t, g.acme.token, rotate, `[`).want(t, 400, "malformed_json")
	for _, body := range []string{`{"grace_seconds":-1}`, `{"grace_seconds":604801}`, `{"secret":"whsec_c2hvcnQ="}`, `{"secret":"hunter2"}`, `{"grace":1}`} {
		g.post(t, g.acme.token, rotate, body).want(t, 422, "validation_failed").lacks(t, "hunter2")
	}
	stale := http.Header{"If-Match": {`"1"`}}
	g.do(t, request{method: "POST", path: rotate, token: g.acme.token, body: `{}`, header: stale}).want(t, 412, "precondition_failed")
	g.do(t, request{method: "DELETE", path: previous, token: g.acme.token, header: stale}).want(t, 412, "precondition_failed")
	g.do(t, request{method: "DELETE", path: previous + "?all", token: g.acme.token}).want(t, 400, "unknown_parameter")
	narrow := g.narrow(t, g.acme, "project/*", "endpoints:secret", "endpoints:read")
	g.post(t, narrow, rotate, `{}`).want(t, 403, "scope_not_grantable")
	g.do(t, request{method: "DELETE", path: previous, token: narrow}).want(t, 403, "scope_not_grantable")
	var ended api.Endpoint
	g.do(t, request{method: "DELETE", path: previous, token: g.acme.token}).want(t, 200, "").into(t, &ended)
	if len(ended.Secrets) != 1 || ended.Secrets[0].RetiresAt != nil {
		t.Errorf("after the end of previous ones: %+v", ended.Secrets)
	}
	g.post(t, g.acme.token, "/v1/endpoints/uid:none/secrets/rotate", `{}`).want(t, 404, "not_found")
	g.do(t, request{method: "DELETE", path: "/v1/endpoints/uid:none/secrets/previous", token: g.acme.token}).want(t, 404, "not_found")
}

func (g *gateway) conformBatches(t *testing.T) {
	post := func(query, body string) answer { return g.post(t, g.acme.token, "/v1/events/batch"+query, body) }
	count := func() (n int) {
		if err := g.db.QueryRow(t.Context(), `select count(*) from gateway.events where type like 'batch.%'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	type result struct {
		ID        string
		Duplicate bool
		Code      string
		Errors    []struct{ Pointer string }
	}
	results := func(a answer) []result {
		var list struct{ Results []result }
		a.want(t, 202, "").into(t, &list)
		return list.Results
	}

	first := results(post("", `{"events":[{"type":"batch.a","uid":"b1","data":{"n": 1.0}},{"type":"batch.a","data":null}]}`))
	if len(first) != 2 || first[0].ID == "" || first[1].ID == "" || first[0].Duplicate || count() != 2 {
		t.Fatalf("%+v", first)
	}
	var kept api.Event
	g.get(t, g.acme.token, "/v1/events/"+first[0].ID).want(t, 200, "").into(t, &kept)
	// Each item is judged by itself: stored before, there twice, there twice with other content, wrong, good.
	mixed := results(post("", `{"events":[
		{"type":"batch.a","uid":"b1","data":{"n": 1.0}},
		{"type":"batch.b","uid":"b2","data":1}, {"type":"batch.b","uid":"b2","data":1}, {"type":"batch.b","uid":"b2","data":2},
		{"type":"batch.a","uid":"b1","data":{"n": 1}},
		{"type":"batch c","data":1}, {"typ":"batch.d","data":1}, 7, {"type":"gateway.x","data":1},
		{"type":"batch.e","data":"`+strings.Repeat("x", 10)+`"}]}`))
	want := []result{
		{Duplicate: true}, {}, {Duplicate: true}, {Code: "event_uid_conflict"}, {Code: "event_uid_conflict"},
		{Code: "validation_failed"}, {Code: "validation_failed"}, {Code: "validation_failed"}, {Code: "type_reserved"}, {},
	}
	for i, r := range mixed {
		if (r.ID != "") != (want[i].Code == "") || r.Code != want[i].Code || r.Duplicate != want[i].Duplicate {
			t.Errorf("item %d: %+v, want %+v", i, r, want[i])
		}
	}
	if mixed[0].ID != first[0].ID || mixed[1].ID != mixed[2].ID || mixed[6].Errors[0].Pointer != "/events/6/typ" || count() != 4 {
		t.Errorf("%+v, %d events", mixed, count())
	}

	// All or nothing.
	pointers := func(a answer) (all []string) {
		var p result
		a.into(t, &p)
		for _, e := range p.Errors {
			all = append(all, e.Pointer)
		}
		return all
	}
	bad := post("?atomic=true", `{"events":[{"type":"batch.f","data":1},{"type":"batch.f"},{"type":"batch.f","data":"`+strings.Repeat("x", 257<<10)+`"}]}`).want(t, 422, "validation_failed")
	if got := fmt.Sprint(pointers(bad)); got != "[/events/1/data /events/2]" {
		t.Errorf("it names %s", got)
	}
	bad = post("?atomic=true", `{"events":[{"type":"batch.f","data":1},{"type":"batch.a","uid":"b1","data":9},{"type":"batch.f","uid":"b2","data":9}]}`).want(t, 409, "event_uid_conflict")
	if got := fmt.Sprint(pointers(bad)); got != "[/events/1/uid /events/2/uid]" {
		t.Errorf("it names %s", got)
	}
	if count() != 4 {
		t.Errorf("an atomic batch with a bad event left %d events", count()-4)
	}
	if all := results(post("?atomic=true", `{"events":[{"type":"batch.f","data":1},{"type":"batch.a","uid":"b1","data":{"n": 1.0}}]}`)); !all[1].Duplicate || count() != 5 {
		t.Errorf("%+v", all)
	}
	post("?atomic=maybe", `{"events":[{"type":"batch.f","data":1}]}`).want(t, 400, "parameter_invalid")
	post("?atom", `{}`).want(t, 400, "unknown_parameter")

	for body, code := range map[string]string{
		`{"events":[]}`: "validation_failed", `{}`: "validation_failed", `[]`: "validation_failed", `{"events":{}}`: "validation_failed",
		`{"Events":[{"type":"a","data":1}]}`: "validation_failed", `{"events":[{"type":"a","data":1}],"events":[]}`: "validation_failed",
		`{"events":[` + strings.Repeat(`{"type":"batch.x","data":1},`, 100) + `{"type":"batch.x","data":1}]}`:      "validation_failed",
		`{"events":[{"type":"batch.x","data":1}],"x":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) + `}`: "validation_failed",
	} {
		post("", body).want(t, 422, code)
	}
	for _, body := range []string{` `, `{`, `{"events":[1`, `{"events":[{"type":"batch.x","data":1}]}x`, "{\"events\":[\"\xff\"]}", `nope`} {
		post("", body).want(t, 400, "malformed_json")
	}
	if n := len(results(post("", `{"events":[`+strings.Repeat(`{"type":"batch.g","data":1},`, 99)+`{"type":"batch.g","data":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)+`}]}`))); n != 100 || count() != 105 {
		t.Errorf("%d results, %d events", n, count())
	}
	// What can't be read of one event is no matter of the others.
	deep := strings.Repeat(`[`, 5000) + `"]}\""` + strings.Repeat(`]`, 5000)
	apart := results(post("", `{"events":[{"type":"batch.h","data":`+deep+`}, `+deep+`, {"type":"batch.h","data":"`+strings.Repeat("x", 257<<10)+`"}, {"type":"batch.h","data":1}]}`))
	if len(apart) != 4 || apart[0].Code != "validation_failed" || apart[0].Errors[0].Pointer != "/events/0/data" || apart[1].Code != "validation_failed" ||
		apart[2].Code != "payload_too_large" || apart[3].ID == "" || count() != 106 {
		t.Errorf("%+v, %d events", apart, count())
	}
	post("", `{"events":[{"type":"batch.h","data":`+deep[:9000]).want(t, 400, "malformed_json")
	post("", `{"events":["`+strings.Repeat("x", 1<<20)+`"]}`).want(t, 413, "payload_too_large")
	g.do(t, request{method: "POST", path: "/v1/events/batch", token: g.acme.token, body: `{}`, header: http.Header{"Content-Type": {"text/plain"}}}).want(t, 415, "unsupported_media_type")
	g.post(t, g.scoped(t, g.acme, "events:read"), "/v1/events/batch", `{}`).want(t, 403, "scope_missing")
}

// conformKeys sends every POST twice under one key, with other content under it, and while the first is in progress.
func (g *gateway) conformKeys(t *testing.T) {
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/keyed"}`)
	acme := typeid.Format(typeid.Tenant, g.acme.id)
	var secrets [][]byte // answers that show one
	for i, op := range []struct {
		token, path, body, other string
		tenant                   uuid.UUID
		status                   int
	}{
		{g.acme.token, "/v1/events", `{"type":"keyed.a","data":1}`, `{"type":"keyed.a","data":2}`, g.acme.id, 202},
		{g.acme.token, "/v1/events/batch", `{"events":[{"type":"keyed.b","data":1}]}`, `{"events":[{"type":"keyed.b","data":2}]}`, g.acme.id, 202},
		{g.acme.token, "/v1/endpoints", `{"url":"https://hooks.example.com/a"}`, `{"url":"https://hooks.example.com/b"}`, g.acme.id, 201},
		{g.acme.token, "/v1/endpoints/" + ep + "/secrets/rotate", `{}`, `{"grace_seconds":1}`, g.acme.id, 200},
		{g.acme.token, "/v1/tokens", `{"name":"a","role":"viewer"}`, `{"name":"b","role":"viewer"}`, g.acme.id, 201},
		{g.operator, "/admin/v1/tenants", `{"name":"a"}`, `{"name":"b"}`, uuid.Nil, 201},
		{g.operator, "/admin/v1/tenants/" + acme + "/tokens", `{"name":"a","role":"viewer"}`, `{"name":"b","role":"viewer"}`, uuid.Nil, 201},
	} {
		key := fmt.Sprintf("key-%d", i)
		send := func(key, body string) answer {
			return g.do(t, request{method: "POST", path: op.path, token: op.token, body: body, header: http.Header{"Idempotency-Key": {key}}})
		}
		first := send(key, op.body).want(t, op.status, "")
		again := send(key, op.body).want(t, op.status, "")
		if string(first.body) != string(again.body) || again.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Idempotency-Replayed") != "" ||
			first.header.Get("Location") != again.header.Get("Location") || first.header.Get("ETag") != again.header.Get("ETag") {
			t.Errorf("POST %s: first %s %v, again %s %v", op.path, first.body, first.header, again.body, again.header)
		}
		if bytes.Contains(first.body, []byte(`"whsec_`)) || bytes.Contains(first.body, []byte(`"eyJ`)) {
			secrets = append(secrets, first.body)
		}
		send(key, op.other).want(t, 422, "idempotency_key_reused")
		send(strings.Repeat("k", 256), op.body).want(t, 400, "parameter_invalid")
		send("a b", op.body).want(t, 400, "parameter_invalid")

		// Another request holds the key.
		busy := fmt.Sprintf("busy-%d", i)
		_, _, err := g.config.Keys.Do(t.Context(), idempotency.Request{Tenant: op.tenant, Key: busy}, func(context.Context, idempotency.Tx) (idempotency.Answer, error) {
			if refused := send(busy, op.body).want(t, 409, "request_in_progress"); refused.header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", refused.header.Get("Retry-After"))
			}
			return idempotency.Answer{}, errors.New("enough")
		})
		if err == nil {
			t.Error("the key was not held")
		}
		send(busy, op.body).want(t, op.status, "") // what was refused is not kept
	}
	var rows []byte
	if err := g.db.QueryRow(t.Context(), `select string_agg(response, '' order by key) from gateway.idempotency_keys`).Scan(&rows); err != nil || len(rows) == 0 {
		t.Fatalf("%d bytes of answers, %v", len(rows), err)
	}
	for _, a := range secrets { // were it not sealed, an answer would stand there in base64
		if bytes.Contains(rows, []byte(base64.StdEncoding.EncodeToString(a)[:40])) || bytes.Contains(rows, a[:40]) {
			t.Errorf("a stored answer is readable: %s", a)
		}
	}
	if len(secrets) != 4 {
		t.Errorf("%d answers with a secret were looked for", len(secrets))
	}
}

// narrow is a token that sees a part of the events.
func (g *gateway) narrow(t *testing.T, m member, eventScope string, scopes ...string) string {
	t.Helper()
	body := fmt.Sprintf(`{"name":"narrow","scopes":["%s"],"event_scopes":[%q]}`, strings.Join(scopes, `","`), eventScope)
	var made api.TokenCreated
	g.post(t, m.token, "/v1/tokens", body).want(t, 201, "").into(t, &made)
	return made.Token
}

func (g *gateway) conformDeliveries(t *testing.T) {
	event := g.event(t, g.acme, `{"type":"user.created","subject":"user/1","scopes":["project/1"],"data":{"n": 1.0}}`)
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`)
	id, attempt := g.attempted(t, event, ep)

	for query, want := range map[string]int{
		"?event_id=" + event:                        1,
		"?endpoint_id=" + ep + "&state=succeeded":   1,
		"?state=held&state=exhausted":               0,
		"?type=user.**&subject=user/1":              1,
		"?type=invoice.*":                           0,
		"?http_status=2xx&error_class=ok":           1,
		"?http_status=200":                          1,
		"?http_status=5xx":                          0,
		"?error_class=timeout&error_class=http_5xx": 0,
		"?since=2020-01-01T00:00:00Z":               1,
		"?until=2020-01-01T00:00:00Z":               0,
	} {
		var list api.DeliveryList
		g.get(t, g.acme.token, "/v1/deliveries"+query).want(t, 200, "").into(t, &list)
		if len(list.Data) != want {
			t.Errorf("GET /v1/deliveries%s has %d deliveries, want %d", query, len(list.Data), want)
		}
	}
	g.get(t, g.acme.token, "/v1/deliveries?http_status=abc").want(t, 400, "parameter_invalid")
	g.get(t, g.acme.token, "/v1/deliveries?event_id="+ep).want(t, 400, "parameter_invalid")

	var d api.Delivery
	g.get(t, g.acme.token, "/v1/deliveries/"+id).want(t, 200, "").into(t, &d)
	if d.EventID != event || d.EndpointID != ep || d.State != "succeeded" || d.Attempts != 2 || *d.LastHTTPStatus != 200 {
		t.Errorf("the delivery is %+v", d)
	}
	g.get(t, g.acme.token, "/v1/deliveries/"+id+"?a=b").want(t, 400, "unknown_parameter")
	g.get(t, g.acme.token, "/v1/deliveries/"+event).want(t, 404, "not_found")

	var attempts api.AttemptList
	g.get(t, g.acme.token, "/v1/deliveries/"+id+"/attempts?limit=1").want(t, 200, "").into(t, &attempts)
	if len(attempts.Data) != 1 || attempts.Data[0].ID != attempt || attempts.Data[0].Number != 2 || !attempts.HasMore {
		t.Fatalf("the last attempts are %+v", attempts)
	}
	g.get(t, g.acme.token, "/v1/deliveries/"+id+"/attempts?cursor="+attempts.NextCursor.MustGet()).want(t, 200, "").into(t, &attempts)
	if len(attempts.Data) != 1 || attempts.Data[0].Number != 1 || attempts.HasMore || !attempts.NextCursor.IsNull() || *attempts.Data[0].Reason != "connect_refused" {
		t.Errorf("the first attempts are %+v", attempts)
	}
	g.get(t, g.acme.token, "/v1/deliveries/"+id+"/attempts?since=2020-01-01T00:00:00Z").want(t, 400, "unknown_parameter")
	g.get(t, g.acme.token, "/v1/deliveries/dlv_00000000000000000000000000/attempts").want(t, 404, "not_found")

	var a api.Attempt
	g.get(t, g.acme.token, "/v1/attempts/"+attempt).want(t, 200, "").into(t, &a)
	if a.Request == nil || !strings.HasSuffix(a.Request.Body, `"data":{"n": 1.0}}`) || *a.Response.Body != "AP8=" || *a.Response.BodyEncoding != "base64" {
		t.Errorf("the attempt is %+v, its request %+v, its response %+v", a, a.Request, a.Response)
	}
	read := g.get(t, g.scoped(t, g.acme, "deliveries:read"), "/v1/attempts/"+attempt).want(t, 200, "")
	read.lacks(t, `"body"`)
	read.lacks(t, `"request"`)
	g.get(t, g.acme.token, "/v1/attempts/"+attempt+"?a").want(t, 400, "unknown_parameter")
	g.get(t, g.acme.token, "/v1/attempts/att_00000000000000000000000000").want(t, 404, "not_found")
}

func (g *gateway) conformTokens(t *testing.T) {
	var made api.TokenCreated
	g.post(t, g.acme.token, "/v1/tokens", `{"name":"billing","role":"publisher","expires_in_seconds":3600}`).want(t, 201, "").into(t, &made)
	if fmt.Sprint(made.Scopes) != "[events:write]" || made.Subject != "billing" {
		t.Errorf("made %+v", made)
	}
	g.post(t, made.Token, "/v1/events", `{"type":"a","data":1}`).want(t, 202, "")
	g.post(t, g.acme.token, "/v1/tokens", `{"name":"x"}`).want(t, 422, "validation_failed")
	g.post(t, g.acme.token, "/v1/tokens", `{"name":"x","role":"owner","scopes":["events:read"]}`).want(t, 422, "validation_failed")
	g.post(t, g.acme.token, "/v1/tokens", `{"name":"x","scopes":["admin:read"]}`).want(t, 422, "validation_failed")
	g.post(t, g.acme.token, "/v1/tokens", `{"name":"x","scopes":["events:read"],"event_scopes":["a.b"]}`).want(t, 422, "glob_invalid")
	g.post(t, g.acme.token, "/v1/tokens", ``).want(t, 415, "unsupported_media_type")
	g.post(t, g.acme.token, "/v1/tokens", ` `).want(t, 400, "malformed_json")
	g.post(t, g.scoped(t, g.acme, "tokens:write"), "/v1/tokens", `{"name":"x","role":"owner"}`).want(t, 403, "scope_not_grantable")

	var list api.TokenList
	g.get(t, g.acme.token, "/v1/tokens").want(t, 200, "").into(t, &list)
	g.get(t, g.acme.token, "/v1/tokens").lacks(t, made.Token)
	if len(list.Data) < 2 || list.Data[1].ID != made.ID {
		t.Errorf("the tokens are %+v", list.Data)
	}
	g.get(t, g.acme.token, "/v1/tokens?limit=0").want(t, 400, "parameter_invalid")

	path := "/v1/tokens/" + made.ID
	g.do(t, request{method: "DELETE", path: path, token: g.acme.token}).want(t, 204, "")
	g.do(t, request{method: "DELETE", path: path, token: g.acme.token}).want(t, 204, "")
	g.post(t, made.Token, "/v1/events", `{"type":"a","data":1}`).want(t, 401, "token_revoked")
	g.do(t, request{method: "DELETE", path: path + "?now", token: g.acme.token}).want(t, 400, "unknown_parameter")
	g.do(t, request{method: "DELETE", path: "/v1/tokens/tok_00000000000000000000000000", token: g.acme.token}).want(t, 404, "not_found")
	g.do(t, request{method: "DELETE", path: path, token: made.Token}).want(t, 401, "token_revoked")
	g.do(t, request{method: "DELETE", path: path, token: g.scoped(t, g.acme, "events:read")}).want(t, 403, "scope_missing")
}

func (g *gateway) conformTenants(t *testing.T) {
	var made api.Tenant
	created := g.post(t, g.operator, "/admin/v1/tenants", `{"name":"Carol","uid":"carol","metadata":{"plan":"gold"}}`).want(t, 201, "")
	created.into(t, &made)
	path := "/admin/v1/tenants/" + made.ID
	if created.header.Get("Location") != path || created.header.Get("ETag") != `"1"` || made.State != "active" {
		t.Errorf("created %+v with %v", made, created.header)
	}
	g.post(t, g.operator, "/admin/v1/tenants", `{"name":"Carol","uid":"carol"}`).want(t, 409, "uid_conflict")
	g.post(t, g.operator, "/admin/v1/tenants", `{"name":" "}`).want(t, 422, "validation_failed")
	g.post(t, g.operator, "/admin/v1/tenants", `{"name":"x"`).want(t, 400, "malformed_json")

	g.get(t, g.operator, path).want(t, 200, "")
	g.get(t, g.operator, "/admin/v1/tenants/uid:carol").want(t, 200, "")
	g.get(t, g.operator, "/admin/v1/tenants/uid:nobody").want(t, 404, "not_found")
	g.get(t, g.operator, path+"?x").want(t, 400, "unknown_parameter")
	g.do(t, request{method: "GET", path: path, token: g.operator, header: http.Header{"If-None-Match": {`"1"`}}}).want(t, 304, "")
	var list api.TenantList
	g.get(t, g.operator, "/admin/v1/tenants?state=active&limit=1").want(t, 200, "").into(t, &list)
	if len(list.Data) != 1 || list.Data[0].ID != made.ID || !list.HasMore {
		t.Errorf("the tenants are %+v", list)
	}
	g.get(t, g.operator, "/admin/v1/tenants?state=gone").want(t, 400, "parameter_invalid")

	var token api.TokenCreated
	g.post(t, g.operator, path+"/tokens", `{"name":"owner","role":"owner"}`).want(t, 201, "").into(t, &token)
	g.post(t, g.operator, path+"/tokens", `{"name":"owner","role":"king"}`).want(t, 422, "validation_failed")
	g.post(t, g.operator, path+"/tokens", `{"name":"owner","role":"owner","x":1}`).want(t, 422, "validation_failed")
	g.post(t, g.operator, path+"/tokens", `}`).want(t, 400, "malformed_json")
	g.post(t, g.operator, "/admin/v1/tenants/ten_00000000000000000000000000/tokens", `{"name":"owner","role":"owner"}`).want(t, 404, "not_found")
	g.get(t, g.operator, "/admin/v1/tenants/uid:carol/tokens").want(t, 200, "")
	g.get(t, g.operator, path+"/tokens?x").want(t, 400, "unknown_parameter")
	g.get(t, g.operator, "/admin/v1/tenants/ten_00000000000000000000000000/tokens").want(t, 404, "not_found")

	patch := func(body, ifMatch string) answer {
		return g.do(t, request{method: "PATCH", path: path, token: g.operator, body: body, header: http.Header{"If-Match": {ifMatch}}})
	}
	patch(`{"state":"suspended","metadata":{"plan":null}}`, `"1"`).want(t, 200, "")
	patch(`{"name":"C"}`, `"1"`).want(t, 412, "precondition_failed")
	patch(`{"name":null}`, `"2"`).want(t, 422, "validation_failed")
	patch(`{"name":`, `"2"`).want(t, 400, "malformed_json")
	g.post(t, g.operator, "/admin/v1/tenants", `{"name":"Dave","uid":"dave"}`).want(t, 201, "")
	patch(`{"uid":"dave"}`, `"2"`).want(t, 409, "uid_conflict")
	g.do(t, request{method: "PATCH", path: "/admin/v1/tenants/uid:nobody", token: g.operator, body: `{}`}).want(t, 404, "not_found")

	g.config.Authority.Invalidate("") // as the notification does
	g.post(t, token.Token, "/v1/events", `{"type":"a","data":1}`).want(t, 403, "tenant_suspended")
	g.get(t, token.Token, "/v1/events").want(t, 200, "")
	patch(`{"state":"active"}`, `"2"`).want(t, 200, "")
	g.config.Authority.Invalidate("")
	g.post(t, token.Token, "/v1/events", `{"type":"a","data":1}`).want(t, 202, "")

	revoke := "/admin/v1/tokens/" + token.ID
	g.do(t, request{method: "DELETE", path: revoke, token: g.operator}).want(t, 204, "")
	g.do(t, request{method: "DELETE", path: revoke + "?x", token: g.operator}).want(t, 400, "unknown_parameter")
	g.do(t, request{method: "DELETE", path: "/admin/v1/tokens/tok_00000000000000000000000000", token: g.operator}).want(t, 404, "not_found")
	g.get(t, token.Token, "/v1/events").want(t, 401, "token_revoked")
}

func (g *gateway) conformDiscovery(t *testing.T) {
	var who api.Whoami
	g.get(t, g.acme.token, "/v1/whoami").want(t, 200, "").into(t, &who)
	if who.Tenant.Name != "Acme" || len(who.Token.Scopes) != 12 || who.Limits.EventDataBytes != 256<<10 || who.Limits.Endpoints != 20 {
		t.Errorf("whoami says %+v", who)
	}
	g.get(t, g.narrow(t, g.acme, "project/*", "events:read"), "/v1/whoami").want(t, 200, "")
	g.get(t, g.acme.token, "/v1/whoami?x").want(t, 400, "unknown_parameter")
	for _, path := range []string{"/.well-known/jwks.json", "/openapi.yaml", "/problems", "/problems/not_found"} {
		g.get(t, "", path).want(t, 200, "")
		g.get(t, "", path+"?x=1").want(t, 400, "unknown_parameter")
	}
	g.get(t, "", "/problems/nothing").want(t, 404, "not_found")
	for code := range api.Kinds() {
		if page := g.get(t, "", "/problems/"+code).want(t, 200, ""); !strings.Contains(string(page.body), "<h1>"+code+"</h1>") {
			t.Errorf("the page of %s is %s", code, page.body)
		}
	}
}

func (g *gateway) conformHealth(t *testing.T) {
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		g.get(t, "", path).want(t, 200, "")
		g.get(t, "", path+"?x=1").want(t, 400, "unknown_parameter")
	}
	g.get(t, "", "/readyz?verbose").want(t, 200, "")
	g.server.Drain()
	g.get(t, "", "/readyz").want(t, 503, "")
	g.get(t, "", "/livez").want(t, 200, "")
}
