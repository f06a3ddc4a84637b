package endpoint

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

// Target is what a delivery needs to know of its endpoint. It is shared and not to be changed. One that comes from a Set
// has no Header and no Signer, since matching opens nothing: Store.Target has them.
type Target struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	Version     int64
	URL         string
	Header      http.Header     // its own; nothing that the gateway sends itself
	Signer      *signing.Signer // the newest secret first
	Timeout     time.Duration
	Schedule    []time.Duration // nil: the gateway's
	Scopes      Globs
	State       State
	TraceParent bool // whether traceparent is sent on
}

// Target returns an endpoint of a version or a later one, with its headers and secrets opened. It is kept in memory, so
// an endpoint in use is read and opened once a version. ErrNotFound: it is deleted. signing.ErrUnknownKey and
// ErrSealBroken, wrapped: it can't be opened, which is the matter of this endpoint alone.
func (st *Store) Target(ctx context.Context, id uuid.UUID, version int64) (*Target, error) {
	if t := st.targets.get(id, version); t != nil {
		return t, nil
	}
	t, keep, err := st.loadTarget(ctx, id)
	if err != nil {
		return nil, err
	}
	st.targets.put(t, keep)
	return t, nil
}

// loadTarget also says how long the target holds: until one of its secrets retires (0: for good).
func (st *Store) loadTarget(ctx context.Context, id uuid.UUID) (*Target, time.Duration, error) {
	t := &Target{ID: id}
	var timeout int64
	var scopes []string
	var schedule []int32
	var sealedHeaders []byte
	var sealedSecrets [][]byte
	var keep float64
	err := st.db.QueryRow(ctx, `
		select e.tenant_id, e.version, e.url, e.headers, e.timeout_ms, e.schedule, e.scopes, e.state, e.traceparent,
			array(select s.sealed from gateway.endpoint_secrets s
				where s.tenant_id = e.tenant_id and s.endpoint_id = e.id and (s.retires_at is null or s.retires_at > now())
				order by s.retires_at is null desc, s.id desc),
			(select coalesce(extract(epoch from min(s.retires_at) - now()), 0)::float8 from gateway.endpoint_secrets s
				where s.tenant_id = e.tenant_id and s.endpoint_id = e.id and s.retires_at > now())
		from gateway.endpoints e
		where e.id = $1 and e.deleted_at is null`, id).Scan(
		&t.TenantID, &t.Version, &t.URL, &sealedHeaders, &timeout, &schedule, &scopes, &t.State, &t.TraceParent, &sealedSecrets, &keep)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read an endpoint to deliver to: %w", err)
	}
	t.Timeout, t.Schedule = time.Duration(timeout)*time.Millisecond, durations(schedule)
	if t.Scopes, err = CompileScopes(scopes); err != nil {
		return nil, 0, fmt.Errorf("read the scopes of an endpoint: %w", err)
	}
	if t.Header, err = st.header(id, sealedHeaders); err != nil {
		return nil, 0, err
	}
	if t.Signer, err = st.signer(id, sealedSecrets); err != nil {
		return nil, 0, err
	}
	return t, time.Duration(keep * float64(time.Second)), nil
}

// header opens an endpoint's own headers. Names that are the gateway's are passed over, however they came into the row.
func (st *Store) header(id uuid.UUID, sealed []byte) (http.Header, error) {
	own, err := st.openHeaders(id, sealed)
	if err != nil {
		return nil, err
	}
	header := make(http.Header, len(own))
	for name, value := range own {
		if !ReservedHeader(name) {
			header.Set(name, value)
		}
	}
	return header, nil
}

func (st *Store) signer(id uuid.UUID, sealed [][]byte) (*signing.Signer, error) {
	secrets := make([]signing.Secret, len(sealed))
	for i, s := range sealed {
		plain, err := st.ring.Open(s, purposeSecret, id)
		if err != nil {
			return nil, fmt.Errorf("open a secret of an endpoint: %w", err)
		}
		if secrets[i], err = signing.ParseSecret(string(plain)); err != nil {
			return nil, fmt.Errorf("read a secret of an endpoint: %w", err)
		}
	}
	signer, err := signing.NewSigner(secrets...)
	if err != nil {
		return nil, fmt.Errorf("make the signer of an endpoint: %w", err)
	}
	return signer, nil
}

// maxTargets bounds the memory of targets, in bytes, as far as their headers and a kilobyte for the rest go.
const maxTargets = 64 << 20

// targets keeps the targets that were used last, one version of each.
type targets struct {
	mu    sync.Mutex
	byID  map[uuid.UUID]*list.Element // of kept
	order *list.List                  // the one used last in front
	bytes int
	most  int
}

type kept struct {
	target *Target
	until  time.Time // zero: for good
	bytes  int
}

func newTargets() *targets {
	return &targets{byID: make(map[uuid.UUID]*list.Element), order: list.New(), most: maxTargets}
}

func (c *targets) get(id uuid.UUID, version int64) *Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return nil
	}
	k := e.Value.(kept)
	if k.target.Version < version || !k.until.IsZero() && time.Now().After(k.until) {
		return nil
	}
	c.order.MoveToFront(e)
	return k.target
}

func (c *targets) put(t *Target, keep time.Duration) {
	k := kept{target: t, bytes: 1 << 10}
	if keep > 0 {
		k.until = time.Now().Add(keep)
	}
	for name, values := range t.Header {
		k.bytes += len(name) + len(values[0])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[t.ID]; ok {
		if e.Value.(kept).target.Version > t.Version {
			return // read before a change that somebody else has read already
		}
		c.remove(e)
	}
	c.byID[t.ID] = c.order.PushFront(k)
	c.bytes += k.bytes
	for c.bytes > c.most {
		c.remove(c.order.Back())
	}
}

func (c *targets) remove(e *list.Element) {
	k := c.order.Remove(e).(kept)
	c.bytes -= k.bytes
	delete(c.byID, k.target.ID)
}
