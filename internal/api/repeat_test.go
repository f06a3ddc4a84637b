package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/api"
	sdk "github.com/sallyport-dev/sallyport/sdk/go"
)

// Two servers on one database stand for two processes: they share nothing else.
func TestOneKeyAtTwoServers(t *testing.T) {
	t.Parallel()
	g := setup(t, func(c *api.Config) { c.KeyWait = 0 }) // its own default
	second, err := api.New(g.config)
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(second.Public())
	t.Cleanup(other.Close)
	urls := []string{g.public.URL, other.URL}

	for name, path := range map[string]string{"an event": "/v1/events", "a batch": "/v1/events/batch"} {
		t.Run(name, func(t *testing.T) {
			typ := "raced." + strings.Fields(name)[1]
			body := `{"type":"` + typ + `","data":1}`
			if strings.HasSuffix(path, "batch") {
				body = `{"events":[` + body + `]}`
			}
			answers := make(chan string, 50)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urls[i%2]+path, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+g.acme.token)
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Idempotency-Key", typ)
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Body.Close()
					text, err := io.ReadAll(res.Body)
					if err != nil {
						t.Error(err)
					}
					if res.StatusCode != http.StatusAccepted {
						t.Errorf("answered %d: %s", res.StatusCode, text)
					}
					answers <- string(text)
				}()
			}
			wg.Wait()
			close(answers)
			first := <-answers
			for a := range answers {
				if a != first {
					t.Errorf("answers %s and %s", first, a)
				}
			}
			var n int
			if err := g.db.QueryRow(t.Context(), `select count(*) from gateway.events where type = $1`, typ).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d events, %v", n, err)
			}
		})
	}
}

// Batches that hold the same uids in opposite orders must not wait for each other in a ring.
func TestBatchesNeverDeadlock(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	var wg sync.WaitGroup
	for round := range 20 {
		uids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for side := range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var events []sdk.EventPost
				for i := range uids {
					k := i
					if side == 1 {
						k = len(uids) - 1 - i
					}
					events = append(events, sdk.EventPost{Type: "crossed.x", UID: uids[k] + "-" + string(rune('a'+round)), Data: 1})
				}
				results, err := c.PostEvents(t.Context(), events, sdk.BatchOptions{})
				if err != nil {
					t.Errorf("post: %v", err)
				}
				for _, r := range results {
					if r.Problem != nil || r.Receipt.ID == "" {
						t.Errorf("%+v", r)
					}
				}
			}()
		}
	}
	wg.Wait()
	var n int
	if err := g.db.QueryRow(t.Context(), `select count(*) from gateway.events where type = 'crossed.x'`).Scan(&n); err != nil || n != 160 {
		t.Errorf("%d events, %v", n, err)
	}
}

func TestSDKPostsBatches(t *testing.T) {
	t.Parallel()
	g := setup(t)
	c, _ := g.clients(t)
	events := []sdk.EventPost{{Type: "a.b", UID: "one", Data: map[string]int{"n": 1}}, {Type: "not a type", Data: 1}}
	results, err := c.PostEvents(t.Context(), events, sdk.BatchOptions{})
	if err != nil || len(results) != 2 || results[0].Receipt.ID == "" || results[1].Problem == nil || results[1].Problem.Code != "validation_failed" {
		t.Fatalf("%+v, %v", results, err)
	}
	if _, err := c.PostEvents(t.Context(), events, sdk.BatchOptions{Atomic: true}); err == nil {
		t.Error("an atomic batch with a bad event was taken")
	}
}
