package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// Config says where the database is and how to speak to it. Only URL is needed.
type Config struct {
	// URL is a postgres:// URL or a libpq keyword string. It may hold a password, so it is never printed.
	URL string
	// MaxConns bounds the pool; 0 means 20. The listener's connection, and River's, come on top.
	MaxConns int32
	// ApplicationName is what pg_stat_activity shows; empty means "sallyport".
	ApplicationName string
	// RuntimeParams are settings of each session, over those of the URL, over this package's own.
	RuntimeParams map[string]string
}

const (
	oldestVersion   = 15
	defaultMaxConns = 20

	connectTimeout = 10 * time.Second
	pingTimeout    = 5 * time.Second

	// A peer that went silent is given up after keepAliveIdle + 3 keepAliveIntervals when nothing is being sent,
	// and after userTimeout when something is: both within the 30 s in which the gateway heals itself.
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	userTimeout       = 20 * time.Second
)

// sessionParams are the time limits of a session; the last two have the server give up a client that went silent.
func sessionParams() map[string]string {
	return map[string]string{
		"application_name":                    "sallyport",
		"timezone":                            "UTC",
		"statement_timeout":                   "30s",
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "30s",
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "3",
		"tcp_user_timeout":                    "20s",
	}
}

// Open makes a pool and one connection, so that a wrong URL, a server that is down, too old, or not in UTF-8 is told
// at once, as a *ConnectError that says what to do. The pool knows google/uuid's UUID. The caller closes it.
func Open(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, unreadableURL(err)
	}
	config.MaxConns = cmp.Or(c.MaxConns, defaultMaxConns)
	config.MinIdleConns = 0
	config.PingTimeout = pingTimeout
	config.MaxConnLifetime = time.Hour
	config.MaxConnLifetimeJitter = 10 * time.Minute
	config.MaxConnIdleTime = 10 * time.Minute
	prepare(config.ConnConfig, c)
	config.AfterConnect = afterConnect

	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", explain(config.ConnConfig, err))
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, explain(config.ConnConfig, err)
	}
	return pool, nil
}

// prepare sets what every connection of the gateway has in common.
func prepare(conn *pgx.ConnConfig, c Config) {
	for name, value := range sessionParams() {
		if _, set := conn.RuntimeParams[name]; !set {
			conn.RuntimeParams[name] = value
		}
	}
	if c.ApplicationName != "" {
		conn.RuntimeParams["application_name"] = c.ApplicationName
	}
	for name, value := range c.RuntimeParams {
		conn.RuntimeParams[name] = value
	}
	conn.ConnectTimeout = cmp.Or(conn.ConnectTimeout, connectTimeout)
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount},
		Control:         limitSilence,
	}
	conn.DialFunc = dialer.DialContext
}

// afterConnect checks a new connection's server, from what it said when it was connected to, and adds the codecs.
func afterConnect(_ context.Context, conn *pgx.Conn) error {
	version, encoding := conn.PgConn().ParameterStatus("server_version"), conn.PgConn().ParameterStatus("server_encoding")
	if n := majorVersion(version); n != 0 && n < oldestVersion {
		return &unfitError{fmt.Sprintf("it is PostgreSQL %s and the gateway needs %d or later", version, oldestVersion)}
	}
	if encoding != "" && encoding != "UTF8" {
		return &unfitError{fmt.Sprintf("the database's encoding is %s and the gateway needs UTF8: create it with `create database … encoding 'UTF8' template template0`", encoding)}
	}
	pgxuuid.Register(conn.TypeMap())
	return nil
}

// majorVersion reads "15.18 (Debian 15.18-0+deb12u1)" and "19devel"; 0 if there is no number.
func majorVersion(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	n, _ := strconv.Atoi(version[:end])
	return n
}
