package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/settings"
)

// openPool opens a small pool for a command that works straight on the database.
func openPool(ctx context.Context, url settings.Secret) (*pgxpool.Pool, error) {
	return postgres.Open(ctx, postgres.Config{URL: url.Reveal(), MaxConns: 2, ApplicationName: "sallyport-cli"})
}

func (c *cli) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database's schema up to date"}
	down := c.migration("down", "Undo the newest migration; it deletes data", c.migrateDown)
	down.Flags().Bool("yes", false, "yes, delete the data")
	cmd.AddCommand(
		c.migration("up", "Apply what is missing; safe to run twice and at once", c.migrateUp),
		c.migration("status", "List the migrations and which are applied", c.migrateStatus),
		down,
	)
	return group(cmd)
}

// migration makes a command that works on the database directly, past a pooler.
func (c *cli) migration(use, short string, run func(context.Context, *cobra.Command, *pgxpool.Pool) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.load(cmd, "DATABASE_URL")
			if err != nil {
				return err
			}
			if yes := cmd.Flags().Lookup("yes"); yes != nil && yes.Value.String() != "true" {
				return usagef("%s deletes data. Add --yes if that is what you want", cmd.CommandPath())
			}
			pool, err := openPool(cmd.Context(), s.DirectURL())
			if err != nil {
				return err
			}
			defer pool.Close()
			return run(cmd.Context(), cmd, pool)
		},
	}
	settingFlags(cmd, "DATABASE_URL", "DATABASE_DIRECT_URL")
	return cmd
}

func (c *cli) migrateUp(ctx context.Context, _ *cobra.Command, pool *pgxpool.Pool) error {
	pending, err := postgres.Pending(ctx, pool)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	return c.out.data(map[string]int{"applied": pending}, func(io.Writer) {
		c.out.say("%s applied %d migrations; the schema is up to date", c.out.paint(green, "ok"), pending)
	})
}

func (c *cli) migrateDown(ctx context.Context, _ *cobra.Command, pool *pgxpool.Pool) error {
	undone, err := postgres.Down(ctx, pool)
	if err != nil {
		return err
	}
	return c.out.data(shownMigration(undone), func(io.Writer) {
		c.out.say("%s undid %s", c.out.paint(green, "ok"), undone.Name)
	})
}

// migrationJSON is a migration in JSON.
type migrationJSON struct {
	Schema  string `json:"schema"`
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func shownMigration(m postgres.Migration) migrationJSON { return migrationJSON(m) }

func (c *cli) migrateStatus(ctx context.Context, _ *cobra.Command, pool *pgxpool.Pool) error {
	all, err := postgres.Status(ctx, pool)
	if err != nil {
		return err
	}
	list, rows := make([]migrationJSON, len(all)), make([][]string, len(all))
	pending := 0
	for i, m := range all {
		list[i] = shownMigration(m)
		state := "applied"
		if !m.Applied {
			state = "pending"
			pending++
		}
		rows[i] = []string{state, m.Schema, fmt.Sprint(m.Version), m.Name}
	}
	err = c.out.data(list, func(w io.Writer) { columns(w, rows...) })
	if pending > 0 {
		c.out.hint("%d are pending. Run `gateway migrate up`.", pending)
	}
	return err
}
