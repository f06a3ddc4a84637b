package egress

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

// wire carries requests over one connection.
type wire interface {
	// reserve tells whether one more request may be sent now; each time it does, one exchange follows. It may
	// ask the socket.
	reserve() bool
	// exchange sends one request and reads its answer.
	exchange(ctx context.Context, c *call) outcome
	// spent tells that the connection can never take another request.
	spent() bool
	// shared tells whether several requests may be under way at once.
	shared() bool
	// close closes the connection without waiting for its peer.
	close()
}

// poolKey says which requests may share a connection. Tenants do, where they name the same host and port: the
// connection carries no secret of theirs.
type poolKey struct {
	authority string
	secure    bool
}

// conn is a connection in the pool's books.
type conn struct {
	wire
	key poolKey
	end *time.Timer // takes it out of use

	// Under pool.mu:
	users   int           // requests under way
	listed  bool          // may be taken by others
	retired bool          // closes with its last user
	idle    *list.Element // its place among the idle ones, nil while it has users
}

// pool keeps connections for re-use, bounded in number and in life.
type pool struct {
	maxIdle, maxPerKey int
	life               time.Duration

	mu     sync.Mutex
	conns  map[poolKey][]*conn // those that may be taken: idle ones, and shared ones
	idle   list.List           // *conn, the one that has been idle for longest first
	closed bool
}

func newPool(maxIdle, maxPerKey int, life time.Duration) *pool {
	return &pool{maxIdle: maxIdle, maxPerKey: maxPerKey, life: life, conns: map[poolKey][]*conn{}}
}

// take returns a connection that can carry one more request, or nil. The one that was used last comes first:
// it is the likeliest to be alive, and the others can age.
func (p *pool) take(key poolKey) *conn {
	for {
		p.mu.Lock()
		c := p.pick(key)
		p.mu.Unlock()
		if c == nil || c.shared() {
			return c // a shared one was reserved under the lock
		}
		if c.reserve() { // asks the socket: not under the lock
			return c
		}
		p.put(c, false)
	}
}

func (p *pool) pick(key poolKey) *conn {
	conns := p.conns[key]
	for i := len(conns) - 1; i >= 0; i-- {
		c := conns[i]
		if c.shared() && !c.reserve() {
			continue // full, or going away: whoever uses it last will see
		}
		c.users++
		p.unidle(c)
		if !c.shared() {
			p.unlist(c)
		}
		return c
	}
	return nil
}

// adopt puts a new connection with one user on the books. It is nil where the pool was closed meanwhile.
func (p *pool) adopt(key poolKey, w wire) *conn {
	c := &conn{wire: w, key: key, users: 1}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		w.close()
		return nil
	}
	c.end = time.AfterFunc(p.life, func() { p.retire(c) })
	if c.shared() {
		p.list(c)
	}
	p.mu.Unlock()
	return c
}

// put gives a connection back. One that isn't good any more is closed with its last user.
func (p *pool) put(c *conn, good bool) {
	p.mu.Lock()
	c.users--
	if !good || p.closed {
		p.drop(c)
	}
	if c.users > 0 {
		p.mu.Unlock()
		return
	}
	var victims []*conn
	switch {
	case c.retired, c.spent(), p.surplus(c):
		p.drop(c)
		victims = append(victims, c)
	default:
		p.list(c)
		c.idle = p.idle.PushBack(c)
		for p.idle.Len() > p.maxIdle {
			oldest := p.idle.Front().Value.(*conn)
			p.drop(oldest)
			victims = append(victims, oldest)
		}
	}
	p.mu.Unlock()
	closeAll(victims)
}

// surplus tells whether an idle connection is one too many for its key. Of shared ones one is enough; several
// come to be when requests for a new host start together.
func (p *pool) surplus(c *conn) bool {
	others := 0
	for _, o := range p.conns[c.key] {
		if o == c {
			continue
		}
		if c.shared() && o.shared() {
			return true
		}
		others++
	}
	return others >= p.maxPerKey
}

// retire ends a connection's life: now where it is idle, else with its last user.
func (p *pool) retire(c *conn) {
	p.mu.Lock()
	p.drop(c)
	unused := c.users == 0
	p.mu.Unlock()
	if unused {
		c.close()
	}
}

// close closes what is idle; the rest follows as it is put back.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var victims []*conn
	for _, conns := range p.conns {
		for _, c := range slices.Clone(conns) {
			p.drop(c)
			if c.users == 0 {
				victims = append(victims, c)
			}
		}
	}
	p.mu.Unlock()
	closeAll(victims)
}

// size returns how many connections are idle.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle.Len()
}

// drop keeps a connection from being taken again.
func (p *pool) drop(c *conn) {
	c.retired = true
	c.end.Stop()
	p.unlist(c)
	p.unidle(c)
}

func (p *pool) list(c *conn) {
	if !c.listed {
		c.listed = true
		p.conns[c.key] = append(p.conns[c.key], c)
	}
}

func (p *pool) unlist(c *conn) {
	if !c.listed {
		return
	}
	c.listed = false
	rest := slices.DeleteFunc(p.conns[c.key], func(o *conn) bool { return o == c })
	if len(rest) == 0 {
		delete(p.conns, c.key)
	} else {
		p.conns[c.key] = rest
	}
}

func (p *pool) unidle(c *conn) {
	if c.idle != nil {
		p.idle.Remove(c.idle)
		c.idle = nil
	}
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}
