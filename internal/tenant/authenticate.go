package tenant

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxRows bounds the tokens whose rows are remembered; each takes about a hundred bytes.
	maxRows = 10_000
	// usageEvery is how often the use of tokens is written down, and how long a request may wait for that.
	usageEvery   = time.Minute
	usageTimeout = 2 * time.Second
)

// Authenticate says whose a token is; bearer is what follows "Bearer " in the request's header. A *TokenError says why
// it is refused; any other error that it could not be judged, with the database away for instance.
func (a *Authority) Authenticate(ctx context.Context, bearer string) (Caller, error) {
	v, err := a.verifier.verify(bearer, func(kid string) (ed25519.PublicKey, error) { return a.keys.find(ctx, kid) })
	if err != nil {
		return Caller{}, err
	}
	caller := v.caller
	state, err := a.rows.get(ctx, caller.Token)
	switch {
	case err != nil:
		return Caller{}, err
	case state.tenant != caller.Tenant || !state.valid:
		return Caller{}, &TokenError{Reason: ErrTokenRevoked, Detail: "It was revoked, or its tenant is no more."}
	}
	caller.Suspended = state.suspended
	if err := a.usage.note(ctx, caller); err != nil {
		a.cfg.Log.WarnContext(ctx, "the use of tokens could not be written down", "error", err)
	}
	return caller, nil
}

// Flush writes down which tokens were used since that was last written down. To be called when a process ends.
func (a *Authority) Flush(ctx context.Context) error { return a.usage.flush(ctx) }

// row is what a token's row, and its tenant's, say beyond the token itself.
type row struct {
	tenant    uuid.UUID
	valid     bool
	suspended bool
	readAt    time.Time
}

// rows remembers the rows of tokens for at most maxAge.
type rows struct {
	db  *pgxpool.Pool
	now func() time.Time

	mu         sync.Mutex
	known      map[uuid.UUID]row
	generation int
}

// get reads a token's row. One that does not exist is not valid.
func (r *rows) get(ctx context.Context, id uuid.UUID) (row, error) {
	r.mu.Lock()
	state, ok := r.known[id]
	generation := r.generation
	r.mu.Unlock()
	if ok && r.now().Sub(state.readAt) <= maxAge {
		return state, nil
	}
	state = row{readAt: r.now()}
	var tenant *uuid.UUID
	err := r.db.QueryRow(ctx, `
		select t.tenant_id,
			t.revoked_at is null and (t.tenant_id is null or n.deleted_at is null and t.created_at >= n.token_epoch),
			n.state is not distinct from 'suspended'
		from gateway.tokens t left join gateway.tenants n on n.id = t.tenant_id
		where t.id = $1`, id).Scan(&tenant, &state.valid, &state.suspended)
	if errors.Is(err, pgx.ErrNoRows) {
		return row{}, nil
	}
	if err != nil {
		return row{}, fmt.Errorf("read a token's row: %w", err)
	}
	if tenant != nil {
		state.tenant = *tenant
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation == generation { // else a change was told of while it was read
		r.add(id, state)
	}
	return state, nil
}

func (r *rows) add(id uuid.UUID, state row) {
	if len(r.known) >= maxRows {
		maps.DeleteFunc(r.known, func(_ uuid.UUID, old row) bool { return r.now().Sub(old.readAt) > maxAge })
	}
	if len(r.known) >= maxRows {
		clear(r.known)
	}
	r.known[id] = state
}

func (r *rows) forget(id uuid.UUID) {
	r.forgetIf(func(other uuid.UUID, _ row) bool { return other == id })
}

func (r *rows) forgetTenant(id uuid.UUID) {
	r.forgetIf(func(_ uuid.UUID, state row) bool { return state.tenant == id })
}

func (r *rows) forgetAll() { r.forgetIf(func(uuid.UUID, row) bool { return true }) }

func (r *rows) forgetIf(del func(uuid.UUID, row) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	maps.DeleteFunc(r.known, del)
}

// usage collects which tokens are used, and writes it down once a minute, in the course of the call that is next then.
type usage struct {
	db  *pgxpool.Pool
	now func() time.Time

	mu        sync.Mutex
	used      map[uuid.UUID]use // by token
	flushedAt time.Time
}

type use struct {
	tenant uuid.UUID
	at     time.Time
}

func (u *usage) note(ctx context.Context, c Caller) error {
	now := u.now()
	u.mu.Lock()
	u.used[c.Token] = use{c.Tenant, now}
	due := now.Sub(u.flushedAt) >= usageEvery
	if due {
		u.flushedAt = now
	}
	u.mu.Unlock()
	if !due {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
	defer cancel()
	return u.flush(ctx)
}

func (u *usage) flush(ctx context.Context) error {
	u.mu.Lock()
	used := u.used
	u.used = make(map[uuid.UUID]use)
	u.mu.Unlock()
	ids := slices.Collect(maps.Keys(used))
	if len(ids) == 0 {
		return nil
	}
	tenants, ago := make([]*uuid.UUID, len(ids)), make([]float64, len(ids))
	for i, id := range ids {
		tenants[i], ago[i] = orNull(used[id].tenant), u.now().Sub(used[id].at).Seconds()
	}
	// Rows that are locked belong to a process that writes down the same, or to one that revokes: they are passed over.
	_, err := u.db.Exec(ctx, `
		with used as materialized (
			select t.id, u.ago
			from unnest($1::uuid[], $2::uuid[], $3::float8[]) u(id, tenant_id, ago)
			join gateway.tokens t on t.id = u.id and t.tenant_id is not distinct from u.tenant_id
			order by t.id
			for no key update of t skip locked)
		update gateway.tokens t
		set last_used_at = greatest(t.last_used_at, now() - make_interval(secs => u.ago))
		from used u where t.id = u.id`, ids, tenants, ago)
	if err == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, last := range used {
		if _, newer := u.used[id]; !newer {
			u.used[id] = last
		}
	}
	return fmt.Errorf("write down the use of %d tokens: %w", len(ids), err)
}
