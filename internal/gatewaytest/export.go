package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
)

// Export reads all that the API tells a tenant of its events, deliveries and attempts, and adds it to a run. Endpoints
// have the receiver's names there, the last part of their URLs.
func Export(ctx context.Context, g *Gateway, tenantID, token string, run *checker.Run) error {
	names := make(map[string]string)
	err := pages(ctx, g, token, "/v1/endpoints", func(e struct{ ID, URL string }) error {
		names[e.ID] = e.URL[strings.LastIndexByte(e.URL, '/')+1:]
		return nil
	})
	if err != nil {
		return err
	}
	err = pages(ctx, g, token, "/v1/events", func(e struct{ ID, UID string }) error {
		run.Events = append(run.Events, checker.Event{ID: e.ID, UID: e.UID, Tenant: tenantID})
		return nil
	})
	if err != nil {
		return err
	}
	return pages(ctx, g, token, "/v1/deliveries", func(d struct {
		ID         string `json:"id"`
		EventID    string `json:"event_id"`
		EndpointID string `json:"endpoint_id"`
		State      string `json:"state"`
	}) error {
		name, ours := names[d.EndpointID]
		if !ours {
			name = d.EndpointID // the checker will say so
		}
		run.Deliveries = append(run.Deliveries, checker.Delivery{ID: d.ID, EventID: d.EventID, EndpointID: name, Tenant: tenantID, State: d.State})
		return pages(ctx, g, token, "/v1/deliveries/"+d.ID+"/attempts", func(a struct {
			Number int
			Sent   string
		}) error {
			run.Attempts = append(run.Attempts, checker.Attempt{EventID: d.EventID, EndpointID: name, Number: a.Number, Sent: a.Sent})
			return nil
		})
	})
}

// pages reads a list of the API, page by page.
func pages[T any](ctx context.Context, g *Gateway, token, path string, each func(T) error) error {
	for cursor := ""; ; {
		at := path + "?limit=200"
		if cursor != "" {
			at += "&cursor=" + url.QueryEscape(cursor)
		}
		status, answer, err := g.Call(ctx, token, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("GET %s: %d %s", at, status, answer)
		}
		var page struct {
			Data       []T    `json:"data"`
			NextCursor string `json:"next_cursor"`
			HasMore    bool   `json:"has_more"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return fmt.Errorf("GET %s: %w", at, err)
		}
		for _, item := range page.Data {
			if err := each(item); err != nil {
				return err
			}
		}
		if !page.HasMore {
			return nil
		}
		if page.NextCursor == "" || page.NextCursor == cursor {
			return fmt.Errorf("GET %s: there is more, and no cursor that leads to it", at)
		}
		cursor = page.NextCursor
	}
}

// Settled waits until no event and no delivery of a tenant is open.
func Settled(ctx context.Context, t testing.TB, gateways func() []*Gateway, token string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := "no gateway runs"
	for ctx.Err() == nil {
		if running := gateways(); len(running) > 0 {
			// Events first: one that is fanned out in between has its deliveries by then.
			if last = open(ctx, running[0], token, "/v1/events?limit=1&state=pending"); last == "" {
				if last = open(ctx, running[0], token, "/v1/deliveries?limit=1&state=pending&state=retrying"); last == "" {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	t.Errorf("deliveries are still open: %s", last)
}

// open is what a list answers, or nothing where it is empty.
func open(ctx context.Context, g *Gateway, token, path string) string {
	status, answer, err := g.Call(ctx, token, http.MethodGet, path, nil)
	var page struct{ Data []json.RawMessage }
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &page) != nil || len(page.Data) > 0 {
		return fmt.Sprintf("%d %s %v", status, answer, err)
	}
	return ""
}
