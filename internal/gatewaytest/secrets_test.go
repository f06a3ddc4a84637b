package gatewaytest_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// forms are the ways in which a secret may be spelled.
func forms(secret string) []string {
	plain := strings.TrimPrefix(secret, "whsec_")
	list := []string{plain, url.QueryEscape(plain), hex.EncodeToString([]byte(plain)), base64.StdEncoding.EncodeToString([]byte(plain)), hex.EncodeToString([]byte(secret))}
	if raw, err := base64.StdEncoding.DecodeString(plain); err == nil && len(raw) >= 24 {
		list = append(list, string(raw), hex.EncodeToString(raw))
	}
	return list
}

// TestNoSecretIsLeftBehind lets a process handle every kind of secret, at its most talkative, and then looks through all
// that the run has produced: the log, every row of the database, what receivers were sent, and what the API answered.
func TestNoSecretIsLeftBehind(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	database := postgrestest.NewURL(t)
	in := gatewaytest.InstallOn(t, database, "GATEWAY_LOG_LEVEL=debug")
	g := in.Start()
	_, token := in.Tenant("acme")

	var mu sync.Mutex
	var wire, answers strings.Builder
	var requests int
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		requests++
		own := r.Header.Clone()
		own.Del("Authorization") // the endpoint's own header is meant for it
		fmt.Fprintln(&wire, r.URL, own, string(body), err)
		w.Header().Set("Set-Cookie", "session=cookie-of-the-receiver")
		w.WriteHeader(map[bool]int{true: 500, false: 204}[requests%2 == 1])
		io.WriteString(w, "no")
	}))
	t.Cleanup(receiver.Close)

	call := func(method, path, body string, want int) []byte {
		t.Helper()
		status, answer, err := g.Call(ctx, token, method, path, []byte(body))
		if err != nil || status != want {
			t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
		}
		return answer
	}
	secrets := map[string]string{"the endpoint's own header": "header-hunter2-of-the-endpoint", "a token": token}
	var made struct{ ID, Secret string }
	create := fmt.Sprintf(`{"url":"%s/in","types":["a.**"],"headers":{"Authorization":"Bearer header-hunter2-of-the-endpoint"}}`, receiver.URL)
	if err := json.Unmarshal(call("POST", "/v1/endpoints", create, 201), &made); err != nil {
		t.Fatal(err)
	}
	secrets["the first secret"] = made.Secret
	if err := json.Unmarshal(call("POST", "/v1/endpoints/"+made.ID+"/secrets/rotate", `{}`, 200), &made); err != nil {
		t.Fatal(err)
	}
	secrets["the second secret"] = made.Secret
	const brought = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	call("POST", "/v1/endpoints/"+made.ID+"/secrets/rotate", `{"secret":"`+brought+`"}`, 200)
	secrets["a secret that was brought"] = brought
	for i := range 4 {
		call("POST", "/v1/events", fmt.Sprintf(`{"type":"a.b","data":{"n":%d}}`, i), 202)
	}
	// What goes wrong may tell more than what goes right.
	for _, bad := range []struct{ token, method, path, body string }{
		{"whsec_" + strings.Repeat("A", 43) + "=", "GET", "/v1/endpoints", ""},
		{token + "x", "GET", "/v1/endpoints", ""},
		{token, "POST", "/v1/endpoints", `{"url":"https://user:header-hunter2-of-the-endpoint@example.com/"}`},
		{token, "POST", "/v1/endpoints", `{"url":"https://example.com/","secret":"` + made.Secret + `x"}`},
		{token, "POST", "/v1/endpoints", `{"url":"https://example.com/","headers":{"Webhook-Id":"header-hunter2-of-the-endpoint"}}`},
		{token, "GET", "/v1/events?cursor=" + url.QueryEscape(token), ""},
	} {
		var body []byte
		if bad.body != "" {
			body = []byte(bad.body)
		}
		status, answer, err := g.Call(ctx, bad.token, bad.method, bad.path, body)
		if err != nil || status < 400 || status > 499 {
			t.Errorf("%s %s: %d %s %v", bad.method, bad.path, status, answer, err)
		}
		answers.Write(answer)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for { // each event is refused once or more, and delivered in the end or on its way
		mu.Lock()
		n := requests
		mu.Unlock()
		if n >= 6 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d requests", n)
		case <-tick.C:
		}
	}
	for _, path := range []string{"/v1/endpoints", "/v1/endpoints/" + made.ID, "/v1/deliveries", "/v1/events", "/v1/tokens", "/v1/whoami"} {
		answers.Write(call("GET", path, "", 200))
	}
	if err := g.Stop(); err != nil {
		t.Errorf("the end: %v", err)
	}

	rows := everyRow(ctx, t, database)
	for what, secret := range secrets {
		for _, form := range forms(secret) {
			for where, text := range map[string]string{"the log": g.Log(), "a row": rows, "the wire": wire.String(), "an answer": answers.String()} {
				if strings.Contains(text, form) {
					at := strings.Index(text, form)
					t.Errorf("%s stands in %s: …%.200q", what, where, text[max(at-100, 0):])
				}
			}
		}
	}
	if !strings.Contains(g.Log(), "msg=attempt") || !strings.Contains(rows, "a.b") || !strings.Contains(wire.String(), "Webhook-Signature") {
		t.Error("there is nothing to look through")
	}
}

// everyRow is all tables of a database as text; bytea columns are in hexadecimal.
func everyRow(ctx context.Context, t *testing.T, database string) string {
	t.Helper()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `
		select format('%I.%I', table_schema, table_name) from information_schema.tables
		where table_schema in ('gateway', 'river') and table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 20 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	var text strings.Builder
	for _, table := range tables {
		rows, err := conn.Query(ctx, `select r::text from `+table+` r`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		text.WriteString(strings.Join(lines, "\n"))
	}
	return text.String()
}
