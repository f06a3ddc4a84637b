package endpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// maxWeight bounds what a Directory keeps: each endpoint and each of its globs weighs 1, and takes about a kilobyte.
	maxWeight = 200_000
	// maxMemo is how many types a Set remembers the endpoints of.
	maxMemo = 512
)

// Directory keeps the compiled endpoints of tenants.
type Directory struct {
	mu     sync.Mutex
	sets   map[uuid.UUID]*Set
	weight int // of the sets
	most   int
}

// NewDirectory returns an empty directory.
func NewDirectory() *Directory {
	return &Directory{sets: make(map[uuid.UUID]*Set), most: maxWeight}
}

// SetsTx returns the endpoints of each tenant, none older than what the transaction sees when it is called: it reads
// how old they may be, and then loads what is older. The transaction has to be READ COMMITTED, or have taken its
// snapshot after what is matched was committed; and it must have changed no endpoint itself, for what it may yet take
// back would be kept. A tenant that is not there has no set.
func (d *Directory) SetsTx(ctx context.Context, tx pgx.Tx, tenantIDs []uuid.UUID) (map[uuid.UUID]*Set, error) {
	heads, err := readHeadsTx(ctx, tx, tenantIDs)
	if err != nil {
		return nil, err
	}
	sets := make(map[uuid.UUID]*Set, len(heads))
	var stale []uuid.UUID
	d.mu.Lock()
	for _, h := range heads {
		if s := d.sets[h.Tenant]; s != nil && s.version >= h.Version {
			sets[h.Tenant] = s
			continue
		}
		sets[h.Tenant] = newSet(h)
		stale = append(stale, h.Tenant)
	}
	d.mu.Unlock()
	if len(stale) == 0 {
		return sets, nil
	}
	if err := loadTx(ctx, tx, stale, sets); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range stale {
		d.add(id, sets[id])
	}
	return sets, nil
}

// add keeps a set, unless a newer one came meanwhile, and drops some others where there are too many.
func (d *Directory) add(id uuid.UUID, s *Set) {
	if old := d.sets[id]; old != nil {
		if old.version > s.version {
			return
		}
		d.weight -= old.weight
	}
	d.sets[id] = s
	d.weight += s.weight
	for other, old := range d.sets {
		if d.weight <= d.most {
			return
		}
		delete(d.sets, other)
		d.weight -= old.weight
	}
}

// head is what a tenant's row says of its endpoints.
type head struct {
	Tenant    uuid.UUID
	Version   int64
	Suspended bool
}

func readHeadsTx(ctx context.Context, tx pgx.Tx, tenantIDs []uuid.UUID) ([]head, error) {
	rows, _ := tx.Query(ctx, `
		select id, config_version, state = 'suspended' from gateway.tenants
		where id = any($1) and deleted_at is null`, tenantIDs)
	heads, err := pgx.CollectRows(rows, pgx.RowToStructByPos[head])
	if err != nil {
		return nil, fmt.Errorf("read how old the endpoints of %d tenants may be: %w", len(tenantIDs), err)
	}
	return heads, nil
}

// loadTx fills the sets of some tenants.
func loadTx(ctx context.Context, tx pgx.Tx, tenantIDs []uuid.UUID, sets map[uuid.UUID]*Set) error {
	rows, _ := tx.Query(ctx, `
		select id, tenant_id, version, url, types, scopes, timeout_ms, schedule, state, traceparent
		from gateway.endpoints
		where tenant_id = any($1) and deleted_at is null
		order by id`, tenantIDs)
	compiled := compiler{}
	var types, scopes []string
	var timeout int64
	var schedule []int32
	var t Target
	_, err := pgx.ForEachRow(rows, []any{&t.ID, &t.TenantID, &t.Version, &t.URL, &types, &scopes, &timeout, &schedule, &t.State, &t.TraceParent}, func() error {
		target := t
		target.Timeout, target.Schedule = time.Duration(timeout)*time.Millisecond, durations(schedule)
		sets[t.TenantID].add(&target, compiled, types, scopes)
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the endpoints of %d tenants: %w", len(tenantIDs), err)
	}
	return nil
}

// compiler compiles each list of globs once; most endpoints have the same few.
type compiler map[string]Globs

func (c compiler) globs(kind string, texts []string, compile func([]string) (Globs, error)) (Globs, error) {
	key := kind + strings.Join(texts, "\x00")
	if g, ok := c[key]; ok {
		return g, nil
	}
	g, err := compile(texts)
	if err == nil {
		c[key] = g
	}
	return g, err
}

// Why says what comes of an event for an endpoint. The set is closed, and stands on events.
type Why string

// What can come of it.
const (
	WhyMatched  Why = "matched"
	WhyType     Why = "type"     // no glob of its types matches
	WhyScope    Why = "scope"    // no glob of its scopes does
	WhyPaused   Why = "paused"   // it would be delivered, and is held: the endpoint is paused, or its tenant suspended
	WhyDisabled Why = "disabled" // likewise
)

// Verdict is what comes of an event for an endpoint. The Target has neither Header nor Signer.
type Verdict struct {
	Endpoint *Target
	Why      Why
}

// Set is the endpoints of a tenant at a moment. It is safe for concurrent use.
type Set struct {
	version   int64
	suspended bool
	members   []member
	broken    []uuid.UUID
	weight    int

	mu   sync.RWMutex
	memo map[string][]uint64 // by type: a bit for each member that wants it
}

type member struct {
	target *Target
	types  Globs
}

func newSet(h head) *Set {
	return &Set{version: h.Version, suspended: h.Suspended, memo: make(map[string][]uint64), weight: 1}
}

// add takes an endpoint in. One whose globs are not of the grammar, which no request can bring about, is set aside.
func (s *Set) add(t *Target, c compiler, types, scopes []string) {
	compiled, err := c.globs("types ", types, CompileTypes)
	if err == nil {
		t.Scopes, err = c.globs("scopes ", scopes, CompileScopes)
	}
	if err != nil {
		s.broken = append(s.broken, t.ID)
		return
	}
	s.members = append(s.members, member{t, compiled})
	s.weight += 1 + len(types) + len(scopes)
}

// Broken returns the endpoints whose rows are damaged so that nobody can say what they match; they get no verdict.
func (s *Set) Broken() []uuid.UUID { return slices.Clone(s.broken) }

// Match says what comes of an event for each endpoint, in the order of their ids.
func (s *Set) Match(typ string, scopes, previous []string) []Verdict {
	wanting := s.wanting(typ)
	verdicts := make([]Verdict, len(s.members))
	for i, m := range s.members {
		why := WhyMatched
		switch {
		case wanting[i/64]&(1<<(i%64)) == 0:
			why = WhyType
		case !Admits(m.target.Scopes, scopes, previous):
			why = WhyScope
		case m.target.State == Disabled:
			why = WhyDisabled
		case m.target.State == Paused || s.suspended:
			why = WhyPaused
		}
		verdicts[i] = Verdict{m.target, why}
	}
	return verdicts
}

// wanting returns the members whose types admit typ.
func (s *Set) wanting(typ string) []uint64 {
	s.mu.RLock()
	bits, ok := s.memo[typ]
	s.mu.RUnlock()
	if ok {
		return bits
	}
	bits = make([]uint64, (len(s.members)+63)/64)
	for i, m := range s.members {
		if m.types.Match(typ) {
			bits[i/64] |= 1 << (i % 64)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.memo) >= maxMemo {
		clear(s.memo)
	}
	s.memo[strings.Clone(typ)] = bits
	return bits
}
