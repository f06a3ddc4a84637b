package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// After so long without a notification the connection is pinged: one whose peer vanished looks idle for ever.
	listenPing        = 30 * time.Second
	listenPingTimeout = 5 * time.Second
	// The pauses before connecting again double from the first to the last, each up to a half shorter by chance.
	firstReconnect = 200 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

// Listener holds the one connection of a process that listens for notifications, outside the pool, and makes a new
// one whenever it is lost. What is notified meanwhile is lost too, so a notification is only ever a hint: whoever
// waits for one polls as well, and looks again on each OnConnect.
//
// Register everything before Run. Functions are called one after the other, in order, and must not block: they
// poke a channel or drop a cache entry.
type Listener struct {
	url       string
	log       *slog.Logger
	channels  []string // in the order of their registration
	handlers  map[string][]func(payload string)
	onConnect []func()
	listening atomic.Bool
	ping      time.Duration
	patience  time.Duration // for the answer to a ping
}

// NewListener makes a listener on a database; a direct URL, not PgBouncer's in transaction mode. It connects in Run.
func NewListener(url string, log *slog.Logger) *Listener {
	return &Listener{url: url, log: log, handlers: map[string][]func(string){}, ping: listenPing, patience: listenPingTimeout}
}

// On has a function called with the payload of each notification on a channel.
func (l *Listener) On(channel string, fn func(payload string)) {
	if _, known := l.handlers[channel]; !known {
		l.channels = append(l.channels, channel)
	}
	l.handlers[channel] = append(l.handlers[channel], fn)
}

// OnConnect has a function called each time that the connection is made and listens on all channels: the first
// time, and after each loss.
func (l *Listener) OnConnect(fn func()) { l.onConnect = append(l.onConnect, fn) }

// Listening says whether notifications are arriving now, as far as is known.
func (l *Listener) Listening() bool { return l.listening.Load() }

// Run listens until its context ends and then returns nil. It returns an error only for a URL that can't be read.
func (l *Listener) Run(ctx context.Context) error {
	parsed, err := pgxpool.ParseConfig(l.url) // the pool's URL, which may hold settings of pools
	if err != nil {
		return unreadableURL(err)
	}
	config := parsed.ConnConfig
	prepare(config, Config{ApplicationName: "sallyport listener"})
	pause := firstReconnect
	told := false // of the loss that lasts
	for {
		began := time.Now()
		connected, err := l.session(ctx, config, told)
		if ctx.Err() != nil {
			return nil
		}
		if connected {
			told = false
		}
		if connected && time.Since(began) > lastReconnect { // else a server that drops us at once would be hammered
			pause = firstReconnect
		}
		if !told {
			l.log.Warn("no connection for notifications; polling goes on", "error", err)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause - rand.N(pause/2)):
		}
		pause = min(2*pause, lastReconnect)
	}
}

// session is the life of one connection. It tells whether notifications have arrived, or could have, and why it ended.
func (l *Listener) session(ctx context.Context, config *pgx.ConnConfig, again bool) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, explain(config, err)
	}
	defer func() {
		// A broken peer answers no goodbye, for which pgx would wait 15 s in a goroutine of its own.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
		_ = conn.PgConn().Conn().Close()
	}()
	for _, channel := range l.channels {
		if _, err := conn.Exec(ctx, `listen `+pgx.Identifier{channel}.Sanitize()); err != nil {
			return false, fmt.Errorf("listen on %s: %w", channel, err)
		}
	}
	l.listening.Store(true)
	defer l.listening.Store(false)
	if again {
		l.log.Info("listening for notifications again")
	}
	for _, fn := range l.onConnect {
		fn()
	}
	for {
		if err := l.next(ctx, conn); err != nil {
			return true, err
		}
	}
}

// next waits for one notification and hands it out, or, when none comes for a while, asks whether the peer lives.
func (l *Listener) next(ctx context.Context, conn *pgx.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, l.ping)
	defer cancel()
	note, err := conn.WaitForNotification(waiting)
	if err == nil {
		l.dispatch(note)
		return nil
	}
	if ctx.Err() != nil || !errors.Is(waiting.Err(), context.DeadlineExceeded) || conn.IsClosed() {
		return fmt.Errorf("wait for a notification: %w", err)
	}
	pinging, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	if err := conn.Ping(pinging); err != nil {
		return fmt.Errorf("ping the connection for notifications: %w", err)
	}
	return nil
}

func (l *Listener) dispatch(note *pgconn.Notification) {
	for _, fn := range l.handlers[note.Channel] {
		fn(note.Payload)
	}
}
