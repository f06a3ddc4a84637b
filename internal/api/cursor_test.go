package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/api"
)

// walk reads a list to its end and returns the ids, in order.
func (g *gateway) walk(t *testing.T, token, path, query string, limit int) (ids []string) {
	t.Helper()
	cursor := ""
	for {
		var list struct {
			Data       []struct{ ID string }
			NextCursor *string `json:"next_cursor"`
			HasMore    bool    `json:"has_more"`
		}
		target := fmt.Sprintf("%s?limit=%d%s", path, limit, query)
		if cursor != "" {
			target += "&cursor=" + url.QueryEscape(cursor)
		}
		g.get(t, token, target).want(t, 200, "").into(t, &list)
		for _, e := range list.Data {
			ids = append(ids, e.ID)
		}
		if len(list.Data) > limit || list.HasMore != (list.NextCursor != nil) || list.HasMore && len(list.Data) != limit {
			t.Fatalf("a page of %d with has_more %v and the cursor %v", len(list.Data), list.HasMore, list.NextCursor)
		}
		if !list.HasMore {
			return ids
		}
		cursor = *list.NextCursor
	}
}

// Events that were stored in one instant are each on exactly one page, newest first.
func TestPagesHoldEachEventOnce(t *testing.T) {
	t.Parallel()
	g := setup(t)
	_, err := g.db.Exec(t.Context(), `
		insert into gateway.events (id, tenant_id, type, occurred_at, accepted_at, data, fingerprint)
		select gateway.uuid_v7_beside(gateway.uuid_floor(now())), $1, case when n % 2 = 0 then 'a.even' else 'a.odd' end, now(), now(), '1', '\x00'
		from generate_series(1, 500) n`, g.acme.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{7, 200} {
		ids := g.walk(t, g.acme.token, "/v1/events", "", limit)
		sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
		slices.Reverse(sorted)
		if len(ids) != 500 || !slices.Equal(ids, sorted) {
			t.Errorf("pages of %d hold %d events, %d of them different", limit, len(ids), len(sorted))
		}
	}
	if ids := g.walk(t, g.acme.token, "/v1/events", "&type=a.even", 50); len(ids) != 250 {
		t.Errorf("the pages of one type hold %d events, want 250", len(ids))
	}
	if ids := g.walk(t, g.acme.token, "/v1/events", "", 50); len(ids) != 500 {
		t.Errorf("pages that are exactly full hold %d events, want 500", len(ids))
	}
}

func TestPagesOfEveryList(t *testing.T) {
	t.Parallel()
	g := setup(t)
	var eps []string
	for range 5 {
		eps = append(eps, g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`))
		g.post(t, g.operator, "/admin/v1/tenants", `{"name":"more"}`).want(t, 201, "")
	}
	event := g.event(t, g.acme, `{"type":"a","data":1}`)
	var deliveries []string
	for _, ep := range eps {
		d, _ := g.attempted(t, event, ep)
		deliveries = append(deliveries, d)
	}
	for path, want := range map[string]int{"/v1/endpoints": 5, "/v1/deliveries": 5, "/v1/deliveries/" + deliveries[0] + "/attempts": 2, "/v1/tokens": 1} {
		if ids := g.walk(t, g.acme.token, path, "", 1); len(ids) != want || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != want {
			t.Errorf("the pages of %s hold %v, want %d", path, ids, want)
		}
	}
	if ids := g.walk(t, g.operator, "/admin/v1/tenants", "", 2); len(ids) != 7 {
		t.Errorf("the pages of tenants hold %d, want 7", len(ids))
	}
}

// A cursor belongs to its list, its filters and its tenant.
func TestCursorsAreBound(t *testing.T) {
	t.Parallel()
	g := setup(t)
	for range 3 {
		g.event(t, g.acme, `{"type":"a","data":1}`)
		g.event(t, g.bob, `{"type":"a","data":1}`)
		g.endpoint(t, g.acme, `{"url":"https://hooks.example.com/in"}`)
	}
	var list api.EventList
	g.get(t, g.acme.token, "/v1/events?type=a&state=pending&limit=1").want(t, 200, "").into(t, &list)
	cursor := list.NextCursor.MustGet()
	for _, same := range []string{"?type=a&state=pending", "?state=pending&type=a", "?type=a&state=pending&limit=2"} {
		g.get(t, g.acme.token, "/v1/events"+same+"&cursor="+cursor).want(t, 200, "")
	}
	for _, other := range []string{"?type=a", "?type=b&state=pending", "?type=a&state=pending&state=fanned_out", "?type=a&state=pending&subject=x", "?"} {
		g.get(t, g.acme.token, "/v1/events"+other+"&cursor="+cursor).want(t, 400, "cursor_mismatch")
	}
	g.get(t, g.bob.token, "/v1/events?type=a&state=pending&cursor="+cursor).want(t, 400, "cursor_mismatch")
	g.get(t, g.acme.token, "/v1/endpoints?cursor="+cursor).want(t, 400, "cursor_mismatch")
	g.get(t, g.acme.token, "/v1/deliveries?type=a&state=pending&cursor="+cursor).want(t, 400, "cursor_mismatch")
	for _, made := range []string{"x", cursor[1:], cursor + "AA", cursor[:len(cursor)-1], "AAAA", "%00", "====", cursor + "="} {
		g.get(t, g.acme.token, "/v1/events?type=a&state=pending&cursor="+made).want(t, 400, map[bool]string{true: "parameter_invalid", false: "cursor_mismatch"}[made == "%00"])
	}
	g.get(t, g.acme.token, "/v1/events?cursor=").want(t, 400, "cursor_mismatch")
}
