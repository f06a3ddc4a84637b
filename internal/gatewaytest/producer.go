package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
)

// Producer posts events and keeps a journal. An event that was not taken is posted again, with the same uid, at the next
// gateway, until it is answered 2xx or 4xx, or its tries or the run's time are up.
type Producer struct {
	Gateways func() []*Gateway // that run now; there may be none for a while
	Tenant   string
	Token    string
	Clients  int           // posts at once
	Tries    int           // of an event, at most; 0: as many as there is time for
	Again    time.Duration // between tries; 0: 50 ms

	mu       sync.Mutex
	posts    []checker.Post
	answered sync.Cond // with mu; of more posts
}

// NewProducer returns a producer of a tenant's events.
func NewProducer(gateways func() []*Gateway, tenant, token string, clients int) *Producer {
	p := &Producer{Gateways: gateways, Tenant: tenant, Token: token, Clients: clients}
	p.answered.L = &p.mu
	return p
}

// Posts is the journal.
func (p *Producer) Posts() []checker.Post {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]checker.Post(nil), p.posts...)
}

// Run posts n events, of types a.x and b.x in turn, and returns when each is answered or given up, or ctx ends.
func (p *Producer) Run(ctx context.Context, n int) {
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range p.Clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range numbers {
				p.post(ctx, i)
			}
		}()
	}
	for i := range n {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	wg.Wait()
}

// Await waits until n posts have been answered, or ctx ends.
func (p *Producer) Await(ctx context.Context, n int) {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock() // or it could come between a look at ctx and the wait
		defer p.mu.Unlock()
		p.answered.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.posts) < n && ctx.Err() == nil {
		p.answered.Wait()
	}
}

// post posts the event of a number until it needs no more.
func (p *Producer) post(ctx context.Context, i int) {
	typ := "a.x"
	if i%2 == 1 {
		typ = "b.x"
	}
	post := checker.Post{UID: fmt.Sprintf("%s-%d", p.Tenant[max(len(p.Tenant)-6, 0):], i), Tenant: p.Tenant, Type: typ,
		Data: fmt.Sprintf(`{"n": %d.0, "s":"\u00e9<&>"}`, i)} // bytes that don't survive being decoded and encoded again
	body := fmt.Appendf(nil, `{"type":%q,"uid":%q,"data":%s}`, post.Type, post.UID, post.Data)
	again := p.Again
	if again == 0 {
		again = 50 * time.Millisecond
	}
	tick := time.NewTicker(again)
	defer tick.Stop()
	for turn := i; ctx.Err() == nil && (p.Tries == 0 || post.Tries < p.Tries); turn++ {
		if gateways := p.Gateways(); len(gateways) > 0 && p.once(ctx, gateways[turn%len(gateways)], &post, body) {
			break
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	p.mu.Lock()
	p.posts = append(p.posts, post)
	p.mu.Unlock()
	p.answered.Broadcast()
}

// once posts an event once, and says whether that will do: no try makes a 4xx better but 408, 409 and 429.
func (p *Producer) once(ctx context.Context, g *Gateway, post *checker.Post, body []byte) bool {
	post.Tries++
	status, answer, err := g.Call(ctx, p.Token, http.MethodPost, "/v1/events", body)
	post.Status = status
	var receipt struct{ ID string }
	switch {
	case err != nil:
		return false
	case status/100 == 2:
		if json.Unmarshal(answer, &receipt) != nil || receipt.ID == "" {
			return false
		}
		post.EventID, post.Answered = receipt.ID, time.Now()
		return true
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests:
		return false
	default:
		return status/100 == 4
	}
}
