package checker_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// made is a random run in which everything is as it must be, and what it shows that has a bound.
type made struct {
	checker.Run
	*rand.Rand
	bounds checker.Bounds
}

// clean makes a run of one to three tenants: posts with and without an answer, refusals, attempts whose process died
// before or after the request, and deliveries that gave up.
func clean(seed uint64) *made {
	m := &made{Run: checker.Run{LastFault: noon.Add(5 * time.Second)}, Rand: rand.New(rand.NewPCG(seed, 1)), bounds: checker.Bounds{Heal: 2 * time.Second}}
	for tenant := range 1 + m.IntN(3) {
		for i := range 1 + m.IntN(3) {
			wants := func(string) bool { return true }
			if i > 0 && m.IntN(2) == 0 {
				wants = func(typ string) bool { return strings.HasPrefix(typ, "b.") }
			}
			m.Endpoints = append(m.Endpoints, checker.Endpoint{ID: fmt.Sprintf("ep_%d%d", tenant, i), Tenant: fmt.Sprintf("ten_%d", tenant), Wants: wants})
		}
	}
	for i := range 8 + m.IntN(24) {
		tenant := m.Endpoints[m.IntN(len(m.Endpoints))].Tenant
		p := checker.Post{UID: fmt.Sprintf("u%d", i), Tenant: tenant, Type: []string{"a.x", "b.x"}[m.IntN(2)], Data: fmt.Sprintf(`{"n":%d}`, i)}
		if m.IntN(8) == 0 {
			if m.Posts = append(m.Posts, p); m.IntN(2) == 0 {
				continue // nobody knows whether it arrived, and it did not
			}
		} else {
			p.EventID, p.Answered = fmt.Sprintf("evt_%d", i), noon.Add(time.Duration(m.IntN(8))*time.Second) // some when all was well again
			m.Posts = append(m.Posts, p)
		}
		m.Events = append(m.Events, checker.Event{ID: fmt.Sprintf("evt_%d", i), UID: p.UID, Tenant: tenant})
		for _, e := range m.Endpoints {
			if e.Tenant == tenant && e.Wants(p.Type) {
				m.deliver(p, fmt.Sprintf("evt_%d", i), e.ID)
			}
		}
	}
	return m
}

// deliver takes an event to an endpoint.
func (m *made) deliver(p checker.Post, event, endpoint string) {
	number, taken := 0, 0
	attempt := func(sent string, status int) {
		number++
		m.Attempts = append(m.Attempts, checker.Attempt{EventID: event, EndpointID: endpoint, Number: number, Sent: sent})
		if status > 0 {
			// Whoever waited for the end of the fault arrives soon after it; who did not, and what arrives again, take their time.
			at := m.LastFault.Add(time.Duration(m.IntN(1500)) * time.Millisecond)
			if taken > 0 || !p.Answered.Before(m.LastFault) {
				at = at.Add(10 * time.Second)
			}
			m.Requests = append(m.Requests, checker.Request{EndpointID: endpoint, EventID: event, Attempt: number, UID: p.UID, Type: p.Type, Data: p.Data,
				Status: status, At: at})
		}
		if status/100 == 2 {
			taken++
		}
	}
	for range m.IntN(3) {
		switch m.IntN(5) {
		case 0:
			attempt("yes", 500)
		case 1:
			attempt("no", 0)
		case 2:
			attempt("unknown", 0)
		case 3:
			attempt("unknown", 204)
		case 4: // cut in the middle of the body
			attempt("yes", 0)
			m.Requests = append(m.Requests, checker.Request{EndpointID: endpoint, EventID: event, Attempt: number, Broken: true})
		}
	}
	state := "succeeded"
	if m.IntN(10) == 0 {
		attempt("yes", 410)
		state = "rejected"
	} else {
		attempt("yes", 200+m.IntN(100))
	}
	m.Deliveries = append(m.Deliveries, checker.Delivery{ID: "dlv_" + event, EventID: event, EndpointID: endpoint, Tenant: p.Tenant, State: state})
	m.bounds.Duplicates += max(taken-1, 0)
	if state == "rejected" && taken == 0 {
		m.bounds.NotTaken++
	}
}

// pick is the place of a random element that fits, or -1.
func pick[T any](m *made, list []T, fits func(T) bool) int {
	for _, i := range m.Perm(len(list)) {
		if fits(list[i]) {
			return i
		}
	}
	return -1
}

// sound is the place of a random request of an answered post that was taken at its only time, or -1.
func (m *made) sound() int {
	times, answered := make(map[string]int), make(map[string]bool)
	for _, q := range m.Requests {
		if q.Status/100 == 2 {
			times[q.EventID+q.EndpointID]++
		}
	}
	for _, p := range m.Posts {
		answered[p.EventID] = true
	}
	return pick(m, m.Requests, func(q checker.Request) bool {
		return answered[q.EventID] && times[q.EventID+q.EndpointID] == 1 && q.Status/100 == 2
	})
}

// row is the place of a request's row.
func (m *made) row(q checker.Request) int {
	return pick(m, m.Attempts, func(a checker.Attempt) bool {
		return a.EventID == q.EventID && a.EndpointID == q.EndpointID && a.Number == q.Attempt
	})
}

// add adds a request and its row.
func (m *made) add(q checker.Request) {
	q.Attempt, q.Status = 99, 204
	m.Requests = append(m.Requests, q)
	m.Attempts = append(m.Attempts, checker.Attempt{EventID: q.EventID, EndpointID: q.EndpointID, Number: 99, Sent: "yes"})
}

// faults plant one fault each in a clean run, and say whether there was a place for it. A name up to its comma is the
// kind as which it must be seen.
var faults = map[string]func(m *made) bool{
	"lost": func(m *made) bool { // never sent, and said to be delivered
		i := m.sound()
		if i < 0 {
			return false
		}
		q := m.Requests[i]
		m.Attempts[m.row(q)].Sent = "no"
		m.Requests = append(m.Requests[:i], m.Requests[i+1:]...)
		return m.stateOf(q) == "succeeded"
	},
	"lost, though it arrived": func(m *made) bool { // refused, and said to be delivered
		i := m.sound()
		if i >= 0 {
			m.Requests[i].Status = 500
		}
		return i >= 0 && m.stateOf(m.Requests[i]) == "succeeded"
	},
	"lost, and nothing left": func(m *made) bool {
		i := pick(m, m.Posts, func(p checker.Post) bool { return p.EventID != "" })
		j := pick(m, m.Events, func(e checker.Event) bool { return i >= 0 && e.ID == m.Posts[i].EventID })
		if j < 0 {
			return false
		}
		m.Events = append(m.Events[:j], m.Events[j+1:]...)
		return true
	},
	"phantom": func(m *made) bool {
		m.add(checker.Request{EndpointID: m.Endpoints[0].ID, UID: "nobody", EventID: "evt_x"})
		return true
	},
	"phantom, in the API": func(m *made) bool {
		m.Events = append(m.Events, checker.Event{ID: "evt_x", UID: "nobody", Tenant: m.Endpoints[0].Tenant})
		return true
	},
	"phantom, a delivery": func(m *made) bool {
		m.Deliveries = append(m.Deliveries, checker.Delivery{ID: "dlv_x", EventID: "evt_x", EndpointID: m.Endpoints[0].ID, Tenant: m.Endpoints[0].Tenant, State: "succeeded"})
		return true
	},
	"phantom, a delivery that is not wanted": func(m *made) bool {
		i := pick(m, m.Endpoints, func(e checker.Endpoint) bool { return !e.Wants("a.x") })
		j := pick(m, m.Posts, func(p checker.Post) bool {
			return i >= 0 && p.EventID != "" && p.Type == "a.x" && p.Tenant == m.Endpoints[i].Tenant
		})
		if j >= 0 {
			m.Deliveries = append(m.Deliveries, checker.Delivery{ID: "dlv_x", EventID: m.Posts[j].EventID, EndpointID: m.Endpoints[i].ID, Tenant: m.Endpoints[i].Tenant, State: "held"})
		}
		return j >= 0
	},
	"phantom, not wanted": func(m *made) bool {
		i := pick(m, m.Endpoints, func(e checker.Endpoint) bool { return !e.Wants("a.x") })
		j := pick(m, m.Posts, func(p checker.Post) bool {
			return i >= 0 && p.EventID != "" && p.Type == "a.x" && p.Tenant == m.Endpoints[i].Tenant
		})
		if j >= 0 {
			p := m.Posts[j]
			m.add(checker.Request{EndpointID: m.Endpoints[i].ID, UID: p.UID, EventID: p.EventID, Type: p.Type, Data: p.Data})
		}
		return j >= 0
	},
	"doubled, at a receiver": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			m.Attempts[m.row(m.Requests[i])].EventID, m.Requests[i].EventID = "evt_x", "evt_x"
		}
		return i >= 0
	},
	"doubled, in the API": func(m *made) bool {
		i := pick(m, m.Events, func(checker.Event) bool { return true })
		if i >= 0 {
			m.Events = append(m.Events, checker.Event{ID: "evt_x", UID: m.Events[i].UID, Tenant: m.Events[i].Tenant})
		}
		return i >= 0
	},
	"doubled, one id for two": func(m *made) bool {
		i := m.sound()
		if i < 0 {
			return false
		}
		q := m.Requests[i]
		j := pick(m, m.Posts, func(p checker.Post) bool {
			return p.UID != q.UID && p.EventID != "" && p.Type == q.Type && p.Tenant == m.tenantOf(q.EndpointID)
		})
		if j >= 0 { // the event of another post arrives under this one's id, beside its own
			q.UID, q.Data = m.Posts[j].UID, m.Posts[j].Data
			q.Attempt, q.Status = 99, 500
			m.Requests = append(m.Requests, q)
			m.Attempts = append(m.Attempts, checker.Attempt{EventID: q.EventID, EndpointID: q.EndpointID, Number: 99, Sent: "yes"})
		}
		return j >= 0
	},
	"doubled, a delivery": func(m *made) bool {
		i := pick(m, m.Deliveries, func(d checker.Delivery) bool { return d.State == "succeeded" })
		if i >= 0 {
			m.Deliveries = append(m.Deliveries, m.Deliveries[i])
		}
		return i >= 0
	},
	"duplicate": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			m.add(m.Requests[i])
		}
		return i >= 0
	},
	"bad signature": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			q := m.Requests[i]
			q.Unverified = "no signature matches"
			m.add(q)
		}
		return i >= 0
	},
	"altered": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			m.Requests[i].Data = strings.Replace(m.Requests[i].Data, ":", ": ", 1)
		}
		return i >= 0
	},
	"altered, the type": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			m.Requests[i].Type = "a.y"
		}
		return i >= 0
	},
	"rows, one missing": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			j := m.row(m.Requests[i])
			m.Attempts = append(m.Attempts[:j], m.Attempts[j+1:]...)
		}
		return i >= 0
	},
	"rows, one too many": func(m *made) bool {
		m.Attempts = append(m.Attempts, checker.Attempt{EventID: m.Attempts[0].EventID, EndpointID: m.Attempts[0].EndpointID, Number: 98, Sent: "yes"})
		return true
	},
	"rows, one twice": func(m *made) bool {
		m.Attempts = append(m.Attempts, m.Attempts[m.IntN(len(m.Attempts))])
		return true
	},
	"rows, one that denies": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			m.Attempts[m.row(m.Requests[i])].Sent = "no"
		}
		return i >= 0
	},
	"rows, the wrong number": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			a := &m.Attempts[m.row(m.Requests[i])]
			a.Sent, a.Number = "unknown", 97 // which alone may be without a request
		}
		return i >= 0
	},
	"rows, two requests for one": func(m *made) bool {
		i := m.sound()
		if i >= 0 {
			q := m.Requests[i]
			q.Status = 500
			m.Requests = append(m.Requests, q)
		}
		return i >= 0
	},
	"cross-tenant": func(m *made) bool {
		i := m.sound()
		j := pick(m, m.Endpoints, func(e checker.Endpoint) bool { return i >= 0 && e.Tenant != m.tenantOf(m.Requests[i].EndpointID) })
		if j >= 0 {
			q := m.Requests[i]
			q.EndpointID = m.Endpoints[j].ID
			m.add(q)
		}
		return j >= 0
	},
	"cross-tenant, in the API": func(m *made) bool {
		i := pick(m, m.Events, func(checker.Event) bool { return true })
		if i >= 0 {
			e := m.Events[i]
			e.Tenant = "ten_x"
			m.Events = append(m.Events, e)
		}
		return i >= 0
	},
	"cross-tenant, a delivery": func(m *made) bool {
		i := pick(m, m.Deliveries, func(d checker.Delivery) bool { return d.State == "succeeded" })
		if i >= 0 {
			d := m.Deliveries[i]
			d.Tenant = "ten_x"
			m.Deliveries = append(m.Deliveries, d)
		}
		return i >= 0
	},
	"cross-tenant, a delivery to another's": func(m *made) bool {
		i := pick(m, m.Posts, func(p checker.Post) bool { return p.EventID != "" })
		j := pick(m, m.Endpoints, func(e checker.Endpoint) bool { return i >= 0 && e.Tenant != m.Posts[i].Tenant })
		if j >= 0 {
			m.Deliveries = append(m.Deliveries, checker.Delivery{ID: "dlv_x", EventID: m.Posts[i].EventID, EndpointID: m.Endpoints[j].ID, Tenant: m.Posts[i].Tenant, State: "held"})
		}
		return j >= 0
	},
	"canary": func(m *made) bool { m.Canaries = []string{"10.0.0.5:80"}; return true },
	"unfinished": func(m *made) bool {
		i := pick(m, m.Deliveries, func(d checker.Delivery) bool { return d.State == "succeeded" })
		if i >= 0 {
			m.Deliveries[i].State = []string{"pending", "retrying"}[m.IntN(2)]
		}
		return i >= 0
	},
	"not taken": func(m *made) bool { // it says so itself
		i := m.sound()
		if i < 0 || m.stateOf(m.Requests[i]) != "succeeded" {
			return false
		}
		m.Requests[i].Status = 500
		j := pick(m, m.Deliveries, func(d checker.Delivery) bool {
			return d.EventID == m.Requests[i].EventID && d.EndpointID == m.Requests[i].EndpointID
		})
		m.Deliveries[j].State = []string{"exhausted", "rejected", "cancelled", "held"}[m.IntN(4)]
		return true
	},
	"healed": func(m *made) bool {
		i := m.sound()
		if i < 0 {
			return false
		}
		m.Requests[i].At = m.LastFault.Add(3 * time.Second)
		return m.Posts[pick(m, m.Posts, func(p checker.Post) bool { return p.EventID == m.Requests[i].EventID })].Answered.Before(m.LastFault)
	},
}

func (m *made) tenantOf(endpoint string) string {
	return m.Endpoints[pick(m, m.Endpoints, func(e checker.Endpoint) bool { return e.ID == endpoint })].Tenant
}

func (m *made) stateOf(q checker.Request) string {
	i := pick(m, m.Deliveries, func(d checker.Delivery) bool { return d.EventID == q.EventID && d.EndpointID == q.EndpointID })
	return m.Deliveries[i].State
}

const seeds = 200

func TestACleanRunIsClean(t *testing.T) {
	t.Parallel()
	var all checker.Bounds
	for seed := range uint64(seeds) {
		m := clean(seed)
		if wrong := checker.Check(m.Run).Wrong(m.bounds); len(wrong) > 0 {
			t.Errorf("seed %d: %q", seed, wrong)
		}
		all.Duplicates += m.bounds.Duplicates
		all.NotTaken += m.bounds.NotTaken
	}
	if all.Duplicates == 0 || all.NotTaken == 0 {
		t.Errorf("the runs are too tame: %+v", all)
	}
}

// Each fault must be seen, and be taken for nothing else.
func TestEachFaultIsSeen(t *testing.T) {
	t.Parallel()
	for name, plant := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(name, ",")
			planted := 0
			for seed := range uint64(seeds) {
				m := clean(seed)
				if !plant(m) {
					continue
				}
				planted++
				if wrong := checker.Check(m.Run).Wrong(m.bounds); len(wrong) != 1 || !strings.HasPrefix(wrong[0], kind) {
					t.Errorf("seed %d: found %q", seed, wrong)
				}
			}
			if planted < seeds/10 {
				t.Errorf("planted %d times", planted)
			}
		})
	}
}

// A post that became two events is one fault, however often the second one arrives.
func TestASecondEventCountsOnce(t *testing.T) {
	t.Parallel()
	q := checker.Request{EndpointID: "ep", UID: "u", EventID: "evt_2", Type: "a.x"}
	run := checker.Run{
		Posts:     []checker.Post{{UID: "u", Tenant: "ten", Type: "a.x", EventID: "evt_1"}},
		Endpoints: []checker.Endpoint{{ID: "ep", Tenant: "ten", Wants: func(string) bool { return true }}},
		Requests:  []checker.Request{q, q, q},
	}
	if r := checker.Check(run); r.Doubled != 1 {
		t.Errorf("counted %d", r.Doubled)
	}
}

func TestExamplesAreFew(t *testing.T) {
	t.Parallel()
	r := checker.Check(checker.Run{Canaries: strings.Split("abcdefgh", "")})
	if wrong := r.Wrong(checker.Bounds{}); len(wrong) != 1 || r.Canaries != 8 || len(r.Examples["canary"]) != 5 || !strings.Contains(wrong[0], "canary: 8, at most 0; as\n\ta\n") {
		t.Errorf("%q", wrong)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	checker.Table(&text, map[string]checker.Report{"two, which is longer": checker.Check(clean(2).Run), "one": checker.Check(clean(1).Run)})
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if len(lines) != 3 || len(lines[0]) != len(lines[1]) || len(lines[0]) != len(lines[2]) || !strings.HasPrefix(lines[1], "one") {
		t.Errorf("%q", lines)
	}
}
