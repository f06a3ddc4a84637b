package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/localpg"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

// system is a gateway and its PostgreSQL, running.
type system struct {
	dir    string
	pg     *localpg.Server
	db     *pgx.Conn
	cmd    *exec.Cmd
	env    []string
	url    string
	ops    string
	token  string
	client *http.Client
}

// install starts a PostgreSQL on an empty folder, with durable commits, and a gateway on it, and registers endpoints.
func install(ctx context.Context, program string, sink *sink, endpoints int) (_ *system, err error) {
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	s := &system{dir: dir, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 30 * time.Second}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // as root, PostgreSQL runs as another user
		return nil, err
	}
	s.pg, err = localpg.Start(ctx, localpg.Config{Dir: dir + "/pg", ExtraParams: map[string]string{
		"shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "200",
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top",
	}})
	if err != nil {
		return nil, err
	}
	key, err := signing.NewKey("bench")
	if err != nil {
		return nil, err
	}
	s.env = append(os.Environ(), "GATEWAY_DATABASE_URL="+s.pg.URL(), "GATEWAY_SECRET_KEYS="+key, "GATEWAY_ALLOW_HTTP=true",
		"GATEWAY_EGRESS_ALLOW_LOOPBACK=true", "GATEWAY_LOG_LEVEL=warn")
	cli := func(into any, args ...string) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = s.env
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("gateway %s: %w", strings.Join(args, " "), err)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(out, into)
	}
	if err := cli(nil, "migrate", "up"); err != nil {
		return nil, err
	}
	var tenant struct{ ID string }
	var token struct{ Token string }
	if err := cli(&tenant, "tenant", "create", "bench", "--json"); err != nil {
		return nil, err
	}
	if err := cli(&token, "token", "create", "--tenant", tenant.ID, "--role", "owner", "--json"); err != nil {
		return nil, err
	}
	s.token = token.Token
	if s.db, err = pgx.Connect(ctx, s.pg.URL()); err != nil {
		return nil, err
	}
	if _, err := s.db.Exec(ctx, `create extension if not exists pg_stat_statements`); err != nil {
		return nil, err
	}
	if err := s.serve(ctx, program); err != nil {
		return nil, err
	}
	for i := range endpoints {
		body := fmt.Sprintf(`{"url":"%s/%d","types":["bench.**"]}`, sink.url, i)
		if err := s.post(ctx, "/v1/endpoints", []byte(body), http.StatusCreated); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// serve starts the gateway and waits until it is ready.
func (s *system) serve(ctx context.Context, program string) error {
	api, err := freePort()
	if err != nil {
		return err
	}
	ops, err := freePort()
	if err != nil {
		return err
	}
	s.url, s.ops = "http://"+api, "http://"+ops
	s.cmd = exec.Command(program, "serve", "--listen", api, "--ops-listen", ops)
	s.cmd.Env, s.cmd.Stderr = s.env, os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		resp, err := s.client.Get(s.ops + "/readyz")
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the gateway is not ready")
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *system) close() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Signal(os.Interrupt)
		s.cmd.Wait()
	}
	if s.db != nil {
		s.db.Close(context.Background())
	}
	if s.pg != nil {
		s.pg.Stop()
	}
	os.RemoveAll(s.dir)
}

func (s *system) post(ctx context.Context, path string, body []byte, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("POST %s: %d %s", path, resp.StatusCode, answer)
	}
	return err
}

// load posts a plan's events and waits until all deliveries have arrived.
func (s *system) load(ctx context.Context, p plan, sink *sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	filler := strings.Repeat("x", 960)
	event := func(due time.Time) []byte {
		return fmt.Appendf(nil, `{"type":"bench.event","data":{"due":%d,"filler":"%s"}}`, due.UnixNano(), filler)
	}
	want := sink.count() + p.events*p.endpoints
	var wg sync.WaitGroup
	if p.clients > 0 {
		var left atomic.Int64
		left.Store(int64(p.events))
		for range p.clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for left.Add(-1) >= 0 && ctx.Err() == nil {
					if err := s.post(ctx, "/v1/events", event(time.Now()), http.StatusAccepted); err != nil {
						cancel(err)
					}
				}
			}()
		}
	} else {
		began := time.Now()
		for i := range p.events {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(p.rate))
			time.Sleep(time.Until(due))
			if ctx.Err() != nil {
				break
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := s.post(ctx, "/v1/events", event(due), http.StatusAccepted); err != nil {
					cancel(err)
				}
			}()
		}
	}
	wg.Wait()
	for sink.count() < want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d deliveries arrived: %w", sink.count(), want, context.Cause(ctx))
		case <-sink.arrived:
		}
	}
	return nil
}

// usage is what has been used up to now.
type usage struct {
	gateway, postgres, self time.Duration // of the processors
	statements, commits     int64
	wal                     int64
	peak                    int64 // bytes of the gateway's memory
}

func (s *system) usage(ctx context.Context) (u usage, err error) {
	if u.gateway, err = cpu(s.cmd.Process.Pid); err != nil {
		return u, err
	}
	if u.self, err = cpu(os.Getpid()); err != nil {
		return u, err
	}
	// The postmaster counts its ended children too.
	pids := []int{s.pg.PID()}
	out, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.pg.PID(), s.pg.PID()))
	if err != nil {
		return u, err
	}
	for _, text := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(text); err == nil {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		t, err := cpu(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return u, err
		}
		u.postgres += t
	}
	err = s.db.QueryRow(ctx, `
		select (select coalesce(sum(calls), 0)::bigint from pg_stat_statements where query not like '%pg_stat_statements%'),
			(select xact_commit from pg_stat_database where datname = current_database()),
			(select wal_bytes::bigint from pg_stat_wal)`).Scan(&u.statements, &u.commits, &u.wal)
	if err != nil {
		return u, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			u.peak = kb << 10
		}
	}
	return u, nil
}

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpu is the processor time of a process and of its ended children.
func cpu(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name in brackets, may hold spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// statements lists the statements that took most of the server's time, for whoever looks for what to do next.
func (s *system) statements(ctx context.Context) (string, error) {
	rows, err := s.db.Query(ctx, `
		select calls, total_exec_time, mean_exec_time, rows, left(regexp_replace(query, '\s+', ' ', 'g'), 100)
		from pg_stat_statements order by total_exec_time desc limit 16`)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	var calls, n int64
	var total, mean float64
	var query string
	_, err = pgx.ForEachRow(rows, []any{&calls, &total, &mean, &n, &query}, func() error {
		fmt.Fprintf(&text, "  %8d calls %9.0f ms %8.3f ms each %9d rows  %s\n", calls, total, mean, n, query)
		return nil
	})
	return text.String(), err
}
