package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// onDatabase makes a command that works straight on the database, so that an operator can begin without a token.
func (c *cli) onDatabase(cmd *cobra.Command, required []string, run func(context.Context, *settings.Settings, *pgxpool.Pool, []string) error) *cobra.Command {
	required = append([]string{"DATABASE_URL"}, required...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		s, err := c.load(cmd, required...)
		if err != nil {
			return err
		}
		pool, err := openPool(ctx, s.DatabaseURL)
		if err != nil {
			return err
		}
		defer pool.Close()
		pending, err := postgres.Pending(ctx, pool)
		switch {
		case err != nil:
			return err
		case pending > 0:
			return fmt.Errorf("the database's schema is %d migrations behind. Run `gateway migrate up`", pending)
		}
		return run(ctx, s, pool, args)
	}
	settingFlags(cmd, required...)
	return cmd
}

func (c *cli) tenantCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tenant", Short: "Manage tenants, straight on the database"}
	cmd.AddCommand(
		c.tenantCreateCommand(),
		c.tenantListCommand(),
		c.onDatabase(&cobra.Command{Use: "get TENANT", Short: "Show a tenant, by its id or uid:<text>", Args: exactly("a tenant")}, nil,
			func(ctx context.Context, _ *settings.Settings, pool *pgxpool.Pool, args []string) error {
				t, err := findTenant(ctx, tenant.NewTenants(pool), args[0])
				if err != nil {
					return err
				}
				return c.showTenant(t)
			}),
		c.tenantStateCommand("suspend", "Stop a tenant: it can read and change nothing, and is sent nothing", tenant.Suspended),
		c.tenantStateCommand("resume", "Let a suspended tenant go on", tenant.Active),
	)
	return group(cmd)
}

func (c *cli) tenantCreateCommand() *cobra.Command {
	var uid string
	var metadata map[string]string
	cmd := c.onDatabase(&cobra.Command{Use: "create NAME", Short: "Create a tenant", Args: exactly("a name")}, nil,
		func(ctx context.Context, _ *settings.Settings, pool *pgxpool.Pool, args []string) error {
			spec := tenant.Spec{Name: args[0], Metadata: metadata}
			if uid != "" {
				spec.UID = &uid
			}
			t, err := tenant.NewTenants(pool).Create(ctx, spec)
			if errors.Is(err, tenant.ErrUIDTaken) {
				return fmt.Errorf("another tenant has the uid %q. Show it with `gateway tenant get uid:%s`", uid, uid)
			}
			if err != nil {
				return told(err)
			}
			return c.showTenant(t)
		})
	cmd.Flags().StringVar(&uid, "uid", "", "your own name for it, 1 to 128 of A-Z a-z 0-9 _ -")
	cmd.Flags().StringToStringVar(&metadata, "metadata", nil, "key=value, to be repeated")
	return cmd
}

func (c *cli) tenantListCommand() *cobra.Command {
	var limit int
	cmd := c.onDatabase(&cobra.Command{Use: "list", Short: "List tenants, the newest first", Args: exactly()}, nil,
		func(ctx context.Context, _ *settings.Settings, pool *pgxpool.Pool, _ []string) error {
			all, more, err := pages(limit, func(size int, last *tenant.Tenant) ([]tenant.Tenant, bool, error) {
				q := tenant.ListQuery{Limit: size}
				if last != nil {
					q.Before = last.ID
				}
				return tenant.NewTenants(pool).List(ctx, q)
			})
			if err != nil {
				return err
			}
			list, rows := make([]tenantJSON, len(all)), [][]string{{"ID", "UID", "STATE", "CREATED", "NAME"}}
			for i, t := range all {
				list[i] = shownTenant(t)
				rows = append(rows, []string{list[i].ID, orDash(list[i].UID), list[i].State, list[i].CreatedAt.Format(time.DateTime), t.Name})
			}
			err = c.out.data(list, func(w io.Writer) { columns(w, rows...) })
			if more {
				c.out.hint("There are more; see --limit.")
			}
			return err
		})
	cmd.Flags().IntVar(&limit, "limit", 100, "how many, at most")
	return cmd
}

func (c *cli) tenantStateCommand(use, short string, state tenant.State) *cobra.Command {
	return c.onDatabase(&cobra.Command{Use: use + " TENANT", Short: short, Args: exactly("a tenant")}, nil,
		func(ctx context.Context, _ *settings.Settings, pool *pgxpool.Pool, args []string) error {
			tenants := tenant.NewTenants(pool)
			t, err := findTenant(ctx, tenants, args[0])
			if err != nil {
				return err
			}
			t, err = tenants.Update(ctx, t.ID, tenant.Patch{State: tenant.To(state)}, nil)
			if err != nil {
				return told(err)
			}
			return c.showTenant(t)
		})
}

// findTenant reads a tenant by its id or by uid:<text>.
func findTenant(ctx context.Context, tenants *tenant.Tenants, ref string) (tenant.Tenant, error) {
	var t tenant.Tenant
	var err error
	if uid, ok := strings.CutPrefix(ref, "uid:"); ok {
		t, err = tenants.GetByUID(ctx, uid)
	} else {
		var id uuid.UUID
		if id, err = typeid.Parse(typeid.Tenant, ref); err != nil {
			return t, usagef("%q is neither a tenant's id (ten_…) nor uid:<text>", ref)
		}
		t, err = tenants.Get(ctx, id)
	}
	if errors.Is(err, tenant.ErrNotFound) {
		return t, fmt.Errorf("there is no tenant %s", ref)
	}
	return t, err
}

// told makes a refusal of the domain into one of the command line.
func told(err error) error {
	var invalid *tenant.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	field, _, _ := strings.Cut(invalid.Field, "/")
	return usagef("%s: %s %s", strings.ReplaceAll(field, "_", "-"), invalid.Detail, invalid.Hint)
}

// pages reads as many pages as it takes to fill a limit.
func pages[T any](limit int, page func(size int, last *T) ([]T, bool, error)) (all []T, more bool, err error) {
	if limit < 1 {
		return nil, false, usagef("--limit must be 1 or more")
	}
	const most = 200
	for more = true; more && len(all) < limit; {
		var last *T
		if len(all) > 0 {
			last = &all[len(all)-1]
		}
		var next []T
		if next, more, err = page(min(most, limit-len(all)), last); err != nil {
			return nil, false, err
		}
		all = append(all, next...)
	}
	return all, more, nil
}

// tenantJSON is a tenant as the API shows it.
type tenantJSON struct {
	ID          string            `json:"id"`
	UID         *string           `json:"uid,omitempty"`
	Name        string            `json:"name"`
	State       string            `json:"state"`
	Metadata    map[string]string `json:"metadata"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	SuspendedAt *time.Time        `json:"suspended_at,omitempty"`
}

func shownTenant(t tenant.Tenant) tenantJSON {
	out := tenantJSON{typeid.Format(typeid.Tenant, t.ID), t.UID, t.Name, string(t.State), t.Metadata, t.CreatedAt.UTC(), t.UpdatedAt.UTC(), t.SuspendedAt}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}

func (c *cli) showTenant(t tenant.Tenant) error {
	shown := shownTenant(t)
	return c.out.data(shown, func(w io.Writer) {
		columns(w, []string{"id", shown.ID}, []string{"uid", orDash(shown.UID)}, []string{"name", shown.Name}, []string{"state", shown.State},
			[]string{"created", shown.CreatedAt.Format(time.RFC3339)})
	})
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
