package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"time"
)

// plan is what a scenario does.
type plan struct {
	name      string
	endpoints int
	events    int
	clients   int // closed loops; 0: an open loop
	rate      int // of the open loop, a second
}

var plans = map[string]plan{
	"A": {name: "A", endpoints: 1, events: 15000, clients: 32},
	"B": {name: "B", endpoints: 1, events: 3000, rate: 200},
	"C": {name: "C", endpoints: 20, events: 1000, clients: 32},
}

func main() {
	scenario := flag.String("s", "", "scenario; all when empty")
	program := flag.String("gateway", "bin/gateway", "the built program")
	events := flag.Int("events", 0, "events of the scenario, where not its own number")
	verbose := flag.Bool("v", false, "show the statements that took most of the server's time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *program, *scenario, *events, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, scenario string, events int, verbose bool) error {
	var names []string
	for name := range plans {
		if scenario == "" || scenario == name {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no scenario %q", scenario)
	}
	sort.Strings(names)
	for _, name := range names {
		p := plans[name]
		if events > 0 {
			p.events = events
		}
		if err := measure(ctx, program, p, verbose); err != nil {
			return fmt.Errorf("scenario %s: %w", name, err)
		}
	}
	return nil
}

// measure runs one scenario on a fresh database.
func measure(ctx context.Context, program string, p plan, verbose bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	hmac := hmacCost()
	post, err := postCost(ctx)
	if err != nil {
		return err
	}
	sink := newSink()
	defer sink.close()
	s, err := install(ctx, program, sink, p.endpoints)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.load(ctx, plan{events: 300, clients: 8, endpoints: p.endpoints}, sink); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	sink.reset()
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.load(ctx, p, sink); err != nil {
		return err
	}
	took := sink.last().Sub(began)
	time.Sleep(1500 * time.Millisecond) // what is done after the last delivery belongs to the deliveries
	after, err := s.usage(ctx)
	if err != nil {
		return err
	}
	report(p, hmac, post, took, sink, before, after)
	if verbose {
		text, err := s.statements(ctx)
		if err != nil {
			return err
		}
		fmt.Print(text)
	}
	return nil
}

func report(p plan, hmac, post time.Duration, took time.Duration, sink *sink, before, after usage) {
	n := float64(sink.count())
	perEvent := func(d time.Duration) float64 { return float64(d) / n / float64(time.Millisecond) }
	gateway, postgres := perEvent(after.gateway-before.gateway), perEvent(after.postgres-before.postgres)
	harness := perEvent(after.self - before.self)
	p50, p99 := sink.quantile(0.50), sink.quantile(0.99)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	fmt.Printf("scenario %s: %d events, %d endpoints, %.0f deliveries in %.2f s\n", p.name, p.events, p.endpoints, n, took.Seconds())
	fmt.Printf("  machine            HMAC of 1 KiB %.2f µs, loopback POST %.0f µs\n", float64(hmac)/1e3, float64(post)/1e3)
	fmt.Printf("  delivered          %.0f/s, duplicates %d\n", n/took.Seconds(), sink.duplicates())
	fmt.Printf("  accept to arrival  p50 %.1f ms, p99 %.1f ms\n", ms(p50), ms(p99))
	fmt.Printf("  CPU a delivery     %.3f ms = gateway %.3f + PostgreSQL %.3f (harness %.3f) = %.0f HMACs\n",
		gateway+postgres, gateway, postgres, harness, (gateway+postgres)*1e6/float64(hmac))
	fmt.Printf("  a delivery takes   %.2f statements, %.2f commits, %.0f bytes of WAL\n",
		float64(after.statements-before.statements)/n, float64(after.commits-before.commits)/n, float64(after.wal-before.wal)/n)
	fmt.Printf("  memory             gateway %d MiB at most\n", after.peak>>20)
	fmt.Printf("bench %s cpu_ms=%.4f hmac_us=%.3f delivered_per_s=%.0f p50_ms=%.2f p99_ms=%.2f\n",
		p.name, gateway+postgres, float64(hmac)/1e3, n/took.Seconds(), ms(p50), ms(p99))
}
