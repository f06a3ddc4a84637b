package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	sallyport "github.com/sallyport-dev/sallyport"
	"github.com/sallyport-dev/sallyport/internal/settings"
)

func (c *cli) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Runs the gateway until it is told to end (SIGINT, SIGTERM): then it takes no more requests, lets deliveries in\n" +
			"flight end for SHUTDOWN_GRACE, and exits. --roles chooses what this process does; several may share a database.",
		Example: "  gateway serve\n  gateway serve --roles api\n  gateway serve --roles relay,worker",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.load(cmd, "DATABASE_URL", "SECRET_KEYS")
			if err != nil {
				return err
			}
			log := newLog(c.out, s.LogLevel, s.LogFormat)
			tellSettings(s, log)
			l, err := listen(cmd.Context(), s)
			if err != nil {
				return err
			}
			return run(cmd.Context(), s, log, l, func() {})
		},
	}
	settingFlags(cmd)
	return cmd
}

// tellSettings logs what is not by default and where it came from, secrets hidden, and what is unsafe about it.
func tellSettings(s *settings.Settings, log *slog.Logger) {
	var changed []any
	for _, e := range s.Entries() {
		if e.Origin.Source != settings.FromDefault {
			changed = append(changed, slog.String(e.Name, e.Value+" "+e.Origin.String()))
		}
	}
	log.Info("settings that are not by default", changed...)
	for _, text := range s.Warnings() {
		log.Warn(text)
	}
}

// listen takes the ports that a process of these roles serves at.
func listen(ctx context.Context, s *settings.Settings) (l listeners, err error) {
	var config net.ListenConfig
	if l.ops, err = config.Listen(ctx, "tcp", s.OpsListen); err != nil {
		return l, fmt.Errorf("cannot listen at OPS_LISTEN %s: %w", s.OpsListen, err)
	}
	if s.HasRole(settings.RoleAPI) {
		if l.api, err = config.Listen(ctx, "tcp", s.Listen); err != nil {
			return l, errors.Join(fmt.Errorf("cannot listen at LISTEN %s: %w", s.Listen, err), l.close())
		}
	}
	return l, nil
}

func (c *cli) openapiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the contract of the HTTP API (OpenAPI 3.0.3)",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(c.proc.Stdout, sallyport.OpenAPI())
			return err
		},
	}
}
