package checker

import (
	"cmp"
	"slices"
	"time"
)

// pair is an event, by its uid or id, and an endpoint.
type pair struct{ event, endpoint string }

// judge holds a run's journals by what they are looked up by.
type judge struct {
	Report
	posts     map[string]Post // by uid
	endpoints map[string]Endpoint
	ids       map[string]string // of each uid: the event that it is
	uids      map[string]string // and the other way round
	taken     map[pair]int      // by uid: how often a receiver answered 2xx
	first     map[pair]time.Time
}

// Check counts.
func Check(run Run) Report {
	j := judge{
		Report: Report{Events: len(run.Posts), Requests: len(run.Requests), Canaries: len(run.Canaries), Examples: make(map[string][]string)},
		posts:  make(map[string]Post, len(run.Posts)), endpoints: make(map[string]Endpoint, len(run.Endpoints)),
		ids: make(map[string]string, len(run.Posts)), uids: make(map[string]string, len(run.Posts)),
		taken: make(map[pair]int), first: make(map[pair]time.Time),
	}
	for _, p := range run.Posts {
		j.posts[p.UID] = p
		if p.EventID != "" {
			j.ids[p.UID], j.uids[p.EventID] = p.EventID, p.UID
		}
	}
	for _, e := range run.Endpoints {
		j.endpoints[e.ID] = e
	}
	for _, text := range run.Canaries {
		j.example("canary", "%s", text)
	}
	for _, q := range run.Requests {
		j.request(q)
	}
	for _, e := range run.Events {
		j.event(e)
	}
	states := make(map[pair]string) // by uid: the state in which a delivery is
	for _, d := range run.Deliveries {
		j.delivery(d, states)
	}
	j.lost(run, states)
	j.rows(run)
	if !run.LastFault.IsZero() {
		for key, at := range j.first {
			if p := j.posts[key.event]; !p.Answered.IsZero() && p.Answered.Before(run.LastFault) {
				j.Heal = max(j.Heal, at.Sub(run.LastFault))
			}
		}
	}
	return j.Report
}

// request judges a request by itself, and counts what was taken.
func (j *judge) request(q Request) {
	if q.Broken {
		return // counted among the rows alone
	}
	if q.Unverified != "" {
		j.BadSignature++
		j.example("bad signature", "%s at %s: %s", q.EventID, q.EndpointID, q.Unverified)
		return // nothing that it says can be relied on
	}
	p, posted := j.posts[q.UID]
	e, known := j.endpoints[q.EndpointID]
	switch {
	case !posted || !known:
		j.Phantom++
		j.example("phantom", "%s (uid %q) arrived at %s, and was not posted", q.EventID, q.UID, q.EndpointID)
		return
	case p.Tenant != e.Tenant:
		j.CrossTenant++
		j.example("cross-tenant", "%s of tenant %s arrived at %s of tenant %s", q.EventID, p.Tenant, e.ID, e.Tenant)
		return
	case !e.Wants(p.Type):
		j.Phantom++
		j.example("phantom", "%s of type %s arrived at %s, which does not want it", q.EventID, p.Type, e.ID)
		return
	}
	if p.Data != q.Data || p.Type != q.Type {
		j.Altered++
		j.example("altered", "%s: %s %.80q arrived, %s %.80q was posted", q.EventID, q.Type, q.Data, p.Type, p.Data)
	}
	j.same(q.UID, q.EventID)
	if q.Status < 200 || q.Status > 299 {
		return
	}
	key := pair{q.UID, q.EndpointID}
	if j.taken[key]++; j.taken[key] > 1 {
		j.Duplicates++
		j.example("duplicate", "%s at %s, attempt %d", q.EventID, q.EndpointID, q.Attempt)
	}
	if at, seen := j.first[key]; !seen || q.At.Before(at) {
		j.first[key] = q.At
	}
}

// same looks whether a uid and an event are the same as before, and learns it.
func (j *judge) same(uid, id string) {
	before, seen := j.ids[uid]
	owner, known := j.uids[id]
	switch {
	case !known:
		j.uids[id] = uid
	case owner != uid:
		j.Doubled++
		j.example("doubled", "%s is the event of uid %s and of %s", id, owner, uid)
		return
	}
	switch {
	case !seen:
		j.ids[uid] = id
	case before != id && !known: // counted once for each id
		j.Doubled++
		j.example("doubled", "uid %s is event %s and another, %s", uid, before, id)
	}
}

// event judges what the API tells a tenant of an event.
func (j *judge) event(e Event) {
	p, posted := j.posts[e.UID]
	switch {
	case !posted:
		j.Phantom++
		j.example("phantom", "%s (uid %q) is in the API, and was not posted", e.ID, e.UID)
	case p.Tenant != e.Tenant:
		j.CrossTenant++
		j.example("cross-tenant", "%s of tenant %s is shown to tenant %s", e.ID, p.Tenant, e.Tenant)
	default:
		j.same(e.UID, e.ID)
	}
}

// delivery judges what the API tells a tenant of a delivery.
func (j *judge) delivery(d Delivery, states map[pair]string) {
	uid, known := j.uids[d.EventID]
	p, e := j.posts[uid], j.endpoints[d.EndpointID]
	switch {
	case !known:
		j.Phantom++
		j.example("phantom", "%s is a delivery of %s, which was not posted", d.ID, d.EventID)
		return
	case p.Tenant != d.Tenant || e.Tenant != d.Tenant:
		j.CrossTenant++
		j.example("cross-tenant", "%s takes %s of tenant %s to %s of tenant %s, and is shown to %s", d.ID, d.EventID, p.Tenant, e.ID, e.Tenant, d.Tenant)
		return
	case !e.Wants(p.Type):
		j.Phantom++
		j.example("phantom", "%s takes %s of type %s to %s, which does not want it", d.ID, d.EventID, p.Type, e.ID)
		return
	}
	key := pair{uid, d.EndpointID}
	if before, seen := states[key]; seen {
		j.Doubled++
		j.example("doubled", "%s is one more delivery of %s to %s, %s; the other is %s", d.ID, d.EventID, e.ID, d.State, before)
	}
	states[key] = d.State
	switch d.State {
	case "pending", "retrying":
		j.Unfinished++
		j.example("unfinished", "%s of %s to %s is %s", d.ID, d.EventID, e.ID, d.State)
	case "exhausted", "rejected", "cancelled", "held":
		if j.taken[key] == 0 {
			j.NotTaken++
			j.example("not taken", "%s of %s to %s is %s", d.ID, d.EventID, e.ID, d.State)
		}
	}
}

// lost looks for what was answered 2xx and came to nothing: it was not taken, and no delivery says why.
func (j *judge) lost(run Run, states map[pair]string) {
	for _, p := range run.Posts {
		if p.EventID == "" {
			continue
		}
		for _, e := range run.Endpoints {
			key := pair{p.UID, e.ID}
			if e.Tenant == p.Tenant && e.Wants(p.Type) && j.taken[key] == 0 && (states[key] == "" || states[key] == "succeeded") {
				j.Lost++
				j.example("lost", "%s (uid %s), answered at %s, for %s", p.EventID, p.UID, p.Answered.Format(time.StampMicro), e.ID)
			}
		}
	}
	shown := make(map[string]bool, len(run.Events))
	for _, e := range run.Events {
		shown[e.ID] = true
	}
	for _, p := range run.Posts {
		if p.EventID != "" && !shown[p.EventID] {
			j.Lost++
			j.example("lost", "%s (uid %s), answered at %s, is not in the API", p.EventID, p.UID, p.Answered.Format(time.StampMicro))
		}
	}
}

// rows compares the attempts' rows with the requests on the wire, number by number: a row with sent yes is one request,
// one with unknown is one or none, and there is no other request. A request that did not verify counts too.
func (j *judge) rows(run Run) {
	type attempt struct {
		pair
		number int
	}
	type count struct{ yes, unknown, no, requests int }
	counts := make(map[attempt]*count)
	at := func(event, endpoint string, number int) *count {
		key := attempt{pair{event, endpoint}, number}
		if counts[key] == nil {
			counts[key] = new(count)
		}
		return counts[key]
	}
	for _, a := range run.Attempts {
		switch c := at(a.EventID, a.EndpointID, a.Number); a.Sent {
		case "yes":
			c.yes++
		case "unknown":
			c.unknown++
		default:
			c.no++
		}
	}
	for _, q := range run.Requests {
		at(q.EventID, q.EndpointID, q.Attempt).requests++
	}
	keys := make([]attempt, 0, len(counts))
	for key, c := range counts {
		if c.yes+c.unknown+c.no > 1 || c.requests < c.yes || c.requests > c.yes+c.unknown {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b attempt) int {
		return cmp.Or(cmp.Compare(a.event, b.event), cmp.Compare(a.endpoint, b.endpoint), cmp.Compare(a.number, b.number))
	})
	for _, key := range keys {
		c := counts[key]
		j.Rows++
		j.example("rows", "%s to %s, attempt %d: %d requests; rows with sent yes %d, unknown %d, no %d", key.event, key.endpoint, key.number, c.requests, c.yes, c.unknown, c.no)
	}
}
