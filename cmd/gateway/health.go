package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthLimit bounds the question; an orchestrator asks again.
const healthLimit = 5 * time.Second

func (c *cli) healthCommand() *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the process on this machine whether it is ready; exit 0 if it is",
		Long: "Asks the ops port (OPS_LISTEN) of the process on this machine whether it is ready, or with --live whether it runs\n" +
			"at all. For the health checks of containers, where there is no curl.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.load(cmd)
			if err != nil {
				return err
			}
			path := "/readyz?verbose"
			if live {
				path = "/livez"
			}
			return c.health(cmd.Context(), s.OpsListen, path)
		},
	}
	cmd.Flags().BoolVar(&live, "live", false, "whether it runs, not whether it is ready")
	settingFlags(cmd, "OPS_LISTEN")
	return cmd
}

func (c *cli) health(ctx context.Context, listen, path string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("read OPS_LISTEN %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens everywhere, here too
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: nil}}).Do(req)
	if err != nil {
		return fmt.Errorf("nothing answers at %s. Is it running? %w", listen, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", listen, err)
	}
	answer := strings.TrimSpace(string(text))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", answer)
	}
	return c.out.data(map[string]any{"ok": true}, func(w io.Writer) { fmt.Fprintln(w, answer) })
}
