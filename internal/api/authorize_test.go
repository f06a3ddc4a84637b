package api_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sallyport-dev/sallyport/internal/api"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// badToken is what may stand in Authorization, and how it is refused.
type badToken struct {
	name, authorization, code string
}

// badTokens are the tokens that no operation takes, made from one that is good. other is one of the other audience.
func (g *gateway) badTokens(t *testing.T, good, other string, spec tenant.TokenSpec) []badToken {
	t.Helper()
	parts := strings.Split(good, ".")
	header := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(good, claims); err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	forged := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	forged.Header["kid"] = "nobody"
	foreign, err := forged.SignedString(stranger)
	if err != nil {
		t.Fatal(err)
	}
	ago := time.Now().Add(-2 * time.Hour)
	spec.Lifetime = time.Hour
	_, expired := g.issue(t, g.authority(func() time.Time { return ago }), spec)
	revokedToken, revoked := g.issue(t, g.config.Authority, spec)
	if err := g.config.Authority.Revoke(t.Context(), tenant.Caller{Admin: true}, revokedToken.ID); err != nil {
		t.Fatal(err)
	}
	return []badToken{
		{"none", "", "token_missing"},
		{"no scheme", good, "token_missing"},
		{"another scheme", "Basic " + good, "token_missing"},
		{"nothing after the scheme", "Bearer ", "token_missing"},
		{"a word", "Bearer hello", "token_malformed"},
		{"two tokens", "Bearer " + good + " " + good, "token_malformed"},
		{"an endpoint's secret", "Bearer whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "token_malformed"},
		{"alg none", "Bearer " + header(`{"alg":"none"}`) + "." + parts[1] + ".", "token_malformed"},
		{"alg nOnE", "Bearer " + header(`{"alg":"nOnE"}`) + "." + parts[1] + "." + parts[2], "token_malformed"},
		{"alg HS256", "Bearer " + header(`{"alg":"HS256"}`) + "." + parts[1] + "." + parts[2], "token_malformed"},
		{"no signature", "Bearer " + parts[0] + "." + parts[1] + ".", ""},
		{"a cut signature", "Bearer " + good[:len(good)-6], ""},
		{"another's key", "Bearer " + foreign, "token_unknown_key"},
		{"other claims", "Bearer " + parts[0] + "." + header(`{"scope":"events:write"}`) + "." + parts[2], ""},
		{"half a megabyte of dots", "Bearer " + strings.Repeat(".", 500_000), "token_malformed"},
		{"expired", "Bearer " + expired, "token_expired"},
		{"revoked", "Bearer " + revoked, "token_revoked"},
		{"the other audience's", "Bearer " + other, "token_wrong_audience"},
	}
}

// Every operation of the contract, with every token that must not open it and with the least that must.
func TestAuthorisation(t *testing.T) {
	t.Parallel()
	g := setup(t)
	before := g.rows(t)
	all := map[string][]badToken{
		"tenantToken":   g.badTokens(t, g.acme.token, g.operator, tenant.TokenSpec{Tenant: g.acme.id, Role: "owner"}),
		"operatorToken": g.badTokens(t, g.operator, g.acme.token, tenant.TokenSpec{Admin: true, Role: "operator"}),
	}
	scopes := map[string][]string{"tenantToken": tenant.ScopesOf("owner", false), "operatorToken": tenant.ScopesOf("operator", true)}
	issued := len(all) * 2
	tried := 0
	for _, o := range g.contract.operations {
		audience := o.audience(g.contract.doc)
		r := request{method: o.method, path: fillPath(o.path, "uid:nothing"), body: exampleBody(t, o)}
		if audience == "" {
			continue
		}
		for _, bad := range all[audience] {
			r.header = http.Header{"Authorization": {bad.authorization}}
			if bad.authorization == "" {
				r.header = nil
			}
			a := g.do(t, r)
			if a.status != 401 || bad.code != "" && a.code() != bad.code || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), `Bearer realm="sallyport"`) {
				t.Errorf("%s with a token that is %s: %d %s, %v", o.OperationID, bad.name, a.status, a.body, a.header.Values("WWW-Authenticate"))
			}
			tried++
		}
		if !slices.Contains(append(scopes[audience], "none"), o.scope()) {
			t.Errorf("%s needs the scope %q, which nobody can hold", o.OperationID, o.scope())
		}
		spec := tenant.TokenSpec{Tenant: g.acme.id, Admin: audience == "operatorToken"}
		if spec.Admin {
			spec.Tenant = [16]byte{}
		}
		if o.scope() != "none" {
			spec.Scopes = slices.DeleteFunc(slices.Clone(scopes[audience]), func(s string) bool { return s == o.scope() })
			_, r.token = g.issue(t, g.config.Authority, spec)
			r.header = nil
			a := g.do(t, r).want(t, 403, "scope_missing")
			var problem api.Problem
			if a.into(t, &problem); problem.RequiredScope == nil || *problem.RequiredScope != o.scope() {
				t.Errorf("%s does not say which scope it needs: %s", o.OperationID, a.body)
			}
			spec.Scopes = []string{o.scope()}
			issued += 2
			tried++
		} else {
			spec.Scopes = scopes[audience][:1]
			issued++
		}
		_, r.token = g.issue(t, g.config.Authority, spec)
		if r.method == "GET" || strings.Contains(r.path, "nothing") { // else it would do what it says
			r.header = nil
			if a := g.do(t, r); a.status == 401 || a.status == 403 || a.status >= 500 {
				t.Errorf("%s with its scope: %d %s", o.OperationID, a.status, a.body)
			}
			tried++
		}
	}
	if tried < 400 {
		t.Errorf("only %d pairs of an operation and a token were tried", tried)
	}
	if stored := g.rows(t) - before; stored != issued {
		t.Errorf("%d rows were stored, want the %d tokens of this test", stored, issued)
	}
}

// What is another tenant's is answered as what does not exist: with the same bytes, but for the request id.
func TestForeignIsUnknown(t *testing.T) {
	t.Parallel()
	g := setup(t)
	event := g.event(t, g.acme, `{"type":"a","uid":"theirs","data":1}`)
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in","uid":"theirs"}`)
	delivery, attempt := g.attempted(t, event, ep)
	var token api.TokenCreated
	g.post(t, g.acme.token, "/v1/tokens", `{"name":"theirs","role":"viewer"}`).want(t, 201, "").into(t, &token)
	const zeros = "00000000000000000000000001"
	foreign := map[string][][2]string{ // by the name of the path's parameter: what is theirs, and what is nobody's
		"event_id":    {{event, "evt_" + zeros}},
		"endpoint_id": {{ep, "ep_" + zeros}, {"uid:theirs", "uid:nobodys"}},
		"delivery_id": {{delivery, "dlv_" + zeros}},
		"attempt_id":  {{attempt, "att_" + zeros}},
		"token_id":    {{token.ID, "tok_" + zeros}},
	}
	tried := 0
	for _, o := range g.contract.operations {
		_, parameter, has := strings.Cut(o.path, "{")
		parameter, _, _ = strings.Cut(parameter, "}")
		if !has || o.audience(g.contract.doc) != "tenantToken" {
			continue
		}
		if foreign[parameter] == nil {
			t.Errorf("%s has a parameter %s that this test does not know", o.OperationID, parameter)
		}
		for _, pair := range foreign[parameter] {
			var bodies [2]string
			for i, id := range pair {
				r := request{method: o.method, path: fillPath(o.path, id), token: g.bob.token, body: exampleBody(t, o),
					header: http.Header{"X-Request-Id": {"same"}}}
				a := g.do(t, r).want(t, 404, "not_found")
				a.header.Del("Date")
				bodies[i] = fmt.Sprint(a.header, string(a.body))
			}
			if bodies[0] != bodies[1] {
				t.Errorf("%s tells another tenant's from nobody's:\n%s\n%s", o.OperationID, bodies[0], bodies[1])
			}
			tried++
		}
	}
	if tried < 8 {
		t.Errorf("only %d pairs were tried", tried)
	}
	for _, path := range []string{"/v1/events", "/v1/events?uid=theirs", "/v1/endpoints", "/v1/deliveries", "/v1/deliveries?event_id=" + event, "/v1/deliveries?endpoint_id=" + ep} {
		g.get(t, g.bob.token, path).want(t, 200, "").lacks(t, "theirs")
		var list api.EventList
		if g.get(t, g.bob.token, path).into(t, &list); len(list.Data) != 0 {
			t.Errorf("GET %s shows another tenant %d things", path, len(list.Data))
		}
	}
	// It is all still there, and the same uid is another event for another tenant.
	g.get(t, g.acme.token, "/v1/endpoints/uid:theirs").want(t, 200, "")
	g.get(t, token.Token, "/v1/events").want(t, 200, "")
	g.post(t, g.bob.token, "/v1/events", `{"type":"b","uid":"theirs","data":2}`).want(t, 202, "")
}

// A token with event scopes sees the events that they admit, and what belongs to those; others do not exist for it.
func TestEventScopesLimitReading(t *testing.T) {
	t.Parallel()
	g := setup(t)
	ep := g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`)
	token := g.narrow(t, g.acme, "project/1/**", "events:read", "deliveries:read", "payloads:read")
	for scopes, visible := range map[string]bool{`["project/1"]`: true, `["x","project/1/a/b"]`: true, `["project/2"]`: false, `["project"]`: false, `[]`: false} {
		event := g.event(t, g.acme, `{"type":"a","scopes":`+scopes+`,"previous_scopes":["project/1"],"data":1}`)
		delivery, attempt := g.attempted(t, event, ep)
		status, code, count := 404, "not_found", 0
		if visible {
			status, code, count = 200, "", 1
		}
		for _, path := range []string{"/v1/events/" + event, "/v1/deliveries/" + delivery, "/v1/deliveries/" + delivery + "/attempts", "/v1/attempts/" + attempt} {
			g.get(t, token, path).want(t, status, code)
			g.get(t, g.acme.token, path).want(t, 200, "")
		}
		var list api.DeliveryList
		if g.get(t, token, "/v1/deliveries?event_id="+event).into(t, &list); len(list.Data) != count {
			t.Errorf("%d deliveries of an event with the scopes %s are listed", len(list.Data), scopes)
		}
	}
	var list api.EventList
	if g.get(t, token, "/v1/events").into(t, &list); len(list.Data) != 2 {
		t.Errorf("%d of the events are listed, want 2", len(list.Data))
	}
}
