package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/localpg"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

// Where dev listens if it can. The next free port is taken if it can't.
const (
	devListen    = "127.0.0.1:8080"
	devOpsListen = "127.0.0.1:9090"
	portsTried   = 100
)

// onceLimit bounds `gateway dev --once`: a run that hangs must fail.
const onceLimit = 2 * time.Minute

// devFlags is what dev is told.
type devFlags struct {
	once bool
	dir  string
}

func (c *cli) devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run all of it on this machine, with a receiver, and send an event through it",
		Long: "Starts a private PostgreSQL, the gateway and a receiver that verifies, sends an event from one to the other, and\n" +
			"says what to try next. Ctrl-C ends all of it; the data is there again next time.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.dev(cmd, f) },
	}
	cmd.Flags().BoolVar(&f.once, "once", false, "end once the delivery is verified; on free ports and, without --data-dir, on data that is thrown away")
	cmd.Flags().StringVar(&f.dir, "data-dir", "", "where the data lives")
	settingFlags(cmd)
	return cmd
}

// dev runs the whole walk. It returns nil after Ctrl-C, and with --once when the delivery was verified.
func (c *cli) dev(cmd *cobra.Command, f devFlags) (err error) {
	ctx := cmd.Context()
	src, unread := c.sources(cmd)
	// What is wrong with the settings is told before anything is started, with stand-ins for what is not known yet.
	src.Fixed = map[string]string{"DATABASE_URL": "postgres:///dev", "DATABASE_DIRECT_URL": "", "SECRET_KEYS": "", "ROLES": "api,relay,worker"}
	src.Defaults = map[string]string{"LISTEN": devListen, "OPS_LISTEN": devOpsListen,
		"EGRESS_ALLOW_LOOPBACK": "true", "ALLOW_HTTP": "true", "LOG_LEVEL": "warn"}
	if f.once {
		src.Defaults["LISTEN"], src.Defaults["OPS_LISTEN"] = "127.0.0.1:0", "127.0.0.1:0"
	}
	if _, err := c.judge(src, unread); err != nil {
		return err
	}
	dir, throwAway, err := dataDir(f)
	if err != nil {
		return err
	}
	if throwAway {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if f.once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, onceLimit, fmt.Errorf("the walk took longer than %s", onceLimit))
		defer cancel()
	}
	w := &walk{cli: c, dir: dir, once: f.once}
	database, err := w.startPostgres(ctx, throwAway)
	if err != nil {
		return w.cut(ctx, err)
	}
	defer func() { err = errors.Join(err, w.stopPostgres(database)) }()
	keys, err := devKeys(dir)
	if err != nil {
		return err
	}
	src.Fixed["DATABASE_URL"], src.Fixed["SECRET_KEYS"] = database.URL(), keys
	s, err := c.judge(src, nil)
	if err != nil {
		return err
	}
	return w.cut(ctx, w.run(ctx, s, database))
}

// dataDir is where the private server lives, and whether it goes with the run.
func dataDir(f devFlags) (dir string, throwAway bool, err error) {
	switch {
	case f.dir != "":
		dir, err = filepath.Abs(f.dir)
	case f.once:
		dir, err = os.MkdirTemp("", "gateway-once-")
		throwAway = true
	default:
		dir, err = localpg.DefaultDir()
	}
	if err != nil {
		return "", false, fmt.Errorf("choose where the data lives: %w", err)
	}
	return dir, throwAway, nil
}

// devKeys is the key ring of a data directory, made the first time.
func devKeys(dir string) (string, error) {
	path := filepath.Join(dir, "secret-keys")
	data, err := os.ReadFile(path)
	if err == nil {
		return string(data), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the development keys: %w", err)
	}
	text, err := signing.NewKey("dev")
	if err != nil {
		return "", err
	}
	// A key that is half written would lock its owner out, so it has its name only once it is whole.
	if err := os.WriteFile(path+".new", []byte(text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the development keys: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("keep the development keys: %w", err)
	}
	return text, nil
}

// walk is one run of dev.
type walk struct {
	cli  *cli
	dir  string
	once bool
}

// cut tells apart why a run ended: by Ctrl-C, which is no failure; by the bound of --once; by an error.
func (w *walk) cut(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.Join(context.Cause(ctx), err)
	case w.once:
		return errors.New("stopped before the delivery was verified")
	default:
		return nil
	}
}

func (w *walk) startPostgres(ctx context.Context, disposable bool) (*localpg.Server, error) {
	began := time.Now()
	log := newLog(w.cli.out, slog.LevelWarn, "text")
	server, err := localpg.Start(ctx, localpg.Config{Dir: w.dir, Disposable: disposable, Log: log})
	if err != nil {
		return nil, err
	}
	w.ok("postgres started", w.dir, began)
	return server, nil
}

func (w *walk) stopPostgres(server *localpg.Server) error {
	began := time.Now()
	if err := server.Stop(); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	w.ok("postgres stopped", "", began)
	return nil
}

// run migrates, serves, walks, and stays until ctx ends unless it is to run once.
func (w *walk) run(ctx context.Context, s *settings.Settings, database *localpg.Server) error {
	if err := w.migrate(ctx, s); err != nil {
		return err
	}
	log := newLog(w.cli.out, s.LogLevel, s.LogFormat)
	api, ops, err := w.listen(ctx, s)
	if err != nil {
		return err
	}
	receiver, err := newReceiver(ctx)
	if err != nil {
		return err
	}
	parts := newStages(log)
	began := time.Now()
	ready := make(chan struct{})
	parts.start(ctx, "receiver", 2*time.Second, receiver.serve)
	parts.start(ctx, "gateway", s.ShutdownGrace+s.ShutdownMargin+5*time.Second, func(ctx context.Context) error {
		return run(ctx, s, log, listeners{api: api, ops: ops}, func() { close(ready) })
	})
	walked := make(chan error, 1)
	walkCtx, stopWalk := context.WithCancel(ctx)
	defer stopWalk()
	go func() {
		select {
		case <-walkCtx.Done():
			walked <- walkCtx.Err()
		case <-ready:
			w.ok("gateway serving", "http://"+api.Addr().String(), began)
			walked <- w.walk(walkCtx, s, "http://"+api.Addr().String(), "http://"+ops.Addr().String(), receiver)
		}
	}()
	err = w.stay(ctx, parts, walked, database)
	stopWalk()
	if !w.once && ctx.Err() != nil {
		w.cli.out.say("")
	}
	began = time.Now()
	if stopErr := parts.stop(); stopErr != nil {
		return errors.Join(err, stopErr)
	}
	w.ok("gateway stopped", "", began)
	return err
}

// stay waits for the end of the walk and then, unless it is to run once, for the end of ctx.
func (w *walk) stay(ctx context.Context, parts *stages, walked <-chan error, database *localpg.Server) error {
	for {
		select {
		case err := <-walked:
			if err != nil || w.once {
				return err
			}
			walked = nil
		case err := <-parts.failed:
			return err
		case <-database.Ended():
			return fmt.Errorf("postgres has ended by itself; %s says why", filepath.Join(w.dir, "log"))
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *walk) migrate(ctx context.Context, s *settings.Settings) error {
	began := time.Now()
	pool, err := openPool(ctx, s.DatabaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	pending, err := postgres.Pending(ctx, pool)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	detail := "up to date"
	if pending > 0 {
		detail = fmt.Sprintf("%d migrations applied", pending)
	}
	w.ok("schema ready", detail, began)
	return nil
}

// listen takes the two ports: those that were asked for, or by default the next free ones.
func (w *walk) listen(ctx context.Context, s *settings.Settings) (api, ops net.Listener, err error) {
	if api, err = listenNear(ctx, s, "LISTEN", s.Listen); err != nil {
		return nil, nil, err
	}
	if ops, err = listenNear(ctx, s, "OPS_LISTEN", s.OpsListen); err != nil {
		return nil, nil, errors.Join(err, api.Close())
	}
	return api, ops, nil
}

// listenNear listens at an address or, where nobody asked for exactly that one, at the next free port.
func listenNear(ctx context.Context, s *settings.Settings, name, at string) (net.Listener, error) {
	var config net.ListenConfig
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", at, err)
	}
	first, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", at, err)
	}
	tried := 1
	if s.Origin(name).Source == settings.FromDefault && first != 0 {
		tried = portsTried
	}
	var last error
	for port := first; port < first+tried && port <= 65535; port++ {
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("cannot listen at %s (%s): %w", at, s.Origin(name), last)
}

// step is a step of the walk in JSON.
type step struct {
	Step   string `json:"step"`
	Detail string `json:"detail,omitempty"`
	Ms     int64  `json:"ms"`
}

// ok tells that a step is done.
func (w *walk) ok(what, detail string, began time.Time) {
	took := time.Since(began)
	out := w.cli.out
	if out.json {
		out.line(step{what, detail, took.Milliseconds()})
		return
	}
	out.say("%s  %-20s %-44s %s", out.paint(green, "ok"), what, detail, out.paint(dim, fmt.Sprintf("%d ms", took.Milliseconds())))
}
