package checker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// clean is a run in which everything is as it must be: two tenants, three endpoints, one of which failed once.
func clean() checker.Run {
	all := func(string) bool { return true }
	run := checker.Run{
		Endpoints: []checker.Endpoint{
			{ID: "ep_a", Tenant: "ten_1", Wants: all},
			{ID: "ep_b", Tenant: "ten_1", Wants: func(typ string) bool { return strings.HasPrefix(typ, "b.") }},
			{ID: "ep_c", Tenant: "ten_2", Wants: all},
		},
		LastFault: noon.Add(5 * time.Second),
	}
	for i := range 20 {
		uid, id, typ, tenant := fmt.Sprintf("u%d", i), fmt.Sprintf("evt_%d", i), "a.x", "ten_1"
		if i%2 == 0 {
			typ = "b.x"
		}
		if i >= 15 {
			tenant = "ten_2"
		}
		data := fmt.Sprintf(`{"n":%d}`, i)
		run.Posts = append(run.Posts, checker.Post{UID: uid, Tenant: tenant, Type: typ, Data: data, EventID: id, Answered: noon})
		for _, e := range run.Endpoints {
			if e.Tenant != tenant || !e.Wants(typ) {
				continue
			}
			if i == 4 { // refused at first
				run.Requests = append(run.Requests, checker.Request{EndpointID: e.ID, UID: uid, EventID: id, Type: typ, Data: data, Status: 500, At: noon})
				run.Attempts = append(run.Attempts, checker.Attempt{EventID: id, EndpointID: e.ID, Number: 1, Sent: "yes"})
			}
			if i == 6 { // taken over before it was sent
				run.Attempts = append(run.Attempts, checker.Attempt{EventID: id, EndpointID: e.ID, Number: 1, Sent: "unknown"})
			}
			run.Requests = append(run.Requests, checker.Request{EndpointID: e.ID, UID: uid, EventID: id, Type: typ, Data: data, Status: 204, At: noon.Add(time.Second)})
			run.Attempts = append(run.Attempts, checker.Attempt{EventID: id, EndpointID: e.ID, Number: 2, Sent: "yes"})
			run.Deliveries = append(run.Deliveries, checker.Delivery{ID: "dlv", EventID: id, EndpointID: e.ID, Tenant: tenant, State: "succeeded"})
		}
	}
	return run
}

func TestACleanRunIsClean(t *testing.T) {
	t.Parallel()
	if wrong := checker.Check(clean()).Wrong(checker.Bounds{Heal: time.Second}); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// Each fault must be seen, and be taken for nothing else.
func TestEachFaultIsSeen(t *testing.T) {
	t.Parallel()
	last := func(run *checker.Run) *checker.Request { return &run.Requests[len(run.Requests)-1] }
	for name, plant := range map[string]func(*checker.Run){
		"lost": func(run *checker.Run) { // the request never came; its row says that it did not leave
			run.Requests = run.Requests[:len(run.Requests)-1]
			run.Attempts = run.Attempts[:len(run.Attempts)-1]
		},
		"lost, though it arrived": func(run *checker.Run) { last(run).Status = 500 },
		"phantom": func(run *checker.Run) {
			run.Requests = append(run.Requests, checker.Request{EndpointID: "ep_a", UID: "nobody", EventID: "evt_x", Status: 204})
			run.Attempts = append(run.Attempts, checker.Attempt{EventID: "evt_x", EndpointID: "ep_a", Sent: "yes"})
		},
		"phantom, not wanted": func(run *checker.Run) {
			q := run.Requests[0]
			for _, p := range run.Posts {
				if p.Type == "a.x" && p.Tenant == "ten_1" {
					q = checker.Request{EndpointID: "ep_b", UID: p.UID, EventID: p.EventID, Type: p.Type, Data: p.Data, Status: 204}
				}
			}
			run.Requests = append(run.Requests, q)
			run.Attempts = append(run.Attempts, checker.Attempt{EventID: q.EventID, EndpointID: "ep_b", Sent: "yes"})
		},
		"duplicate": func(run *checker.Run) {
			run.Requests = append(run.Requests, *last(run))
			run.Attempts = append(run.Attempts, checker.Attempt{EventID: last(run).EventID, EndpointID: last(run).EndpointID, Sent: "unknown"})
		},
		"doubled": func(run *checker.Run) {
			last(run).EventID = "evt_other"
			run.Attempts[len(run.Attempts)-1].EventID = "evt_other"
		},
		"bad signature": func(run *checker.Run) {
			q := *last(run)
			q.Unverified = "no signature matches"
			run.Requests = append(run.Requests, q)
		},
		"altered":           func(run *checker.Run) { last(run).Data = `{"n": 19}` },
		"rows, one missing": func(run *checker.Run) { run.Attempts = run.Attempts[:len(run.Attempts)-1] },
		"rows, one too many": func(run *checker.Run) {
			run.Attempts = append(run.Attempts, run.Attempts[len(run.Attempts)-1])
		},
		"cross-tenant": func(run *checker.Run) {
			q := *last(run)
			q.EndpointID = "ep_a"
			run.Requests = append(run.Requests, q)
			run.Attempts = append(run.Attempts, checker.Attempt{EventID: q.EventID, EndpointID: "ep_a", Sent: "yes"})
		},
		"canary":     func(run *checker.Run) { run.Canaries = []string{"10.0.0.5:80"} },
		"unfinished": func(run *checker.Run) { run.Deliveries[0].State = "retrying" },
		"healed":     func(run *checker.Run) { last(run).At = noon.Add(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := clean()
			plant(&run)
			kind, _, _ := strings.Cut(name, ",")
			wrong := checker.Check(run).Wrong(checker.Bounds{Heal: time.Second})
			if len(wrong) != 1 || !strings.HasPrefix(wrong[0], kind) {
				t.Errorf("found %q", wrong)
			}
		})
	}
}

func TestAnUnansweredPostMayBeThereOrNot(t *testing.T) {
	t.Parallel()
	run := clean()
	for i := range run.Posts {
		if i%3 == 0 {
			run.Posts[i].EventID, run.Posts[i].Answered = "", time.Time{}
		}
	}
	run.Posts = append(run.Posts, checker.Post{UID: "never", Tenant: "ten_1", Type: "a.x"})
	if wrong := checker.Check(run).Wrong(checker.Bounds{}); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	checker.Table(&text, map[string]checker.Report{"one": checker.Check(clean())})
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 || len(lines[0]) != len(lines[1]) || !strings.HasPrefix(lines[1], "one") {
		t.Errorf("%q", lines)
	}
}
