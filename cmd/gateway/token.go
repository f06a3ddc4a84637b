package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

func (c *cli) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Manage tokens, straight on the database"}
	cmd.AddCommand(
		c.tokenCreateCommand(),
		c.tokenListCommand(),
		c.onDatabase(&cobra.Command{Use: "revoke TOKEN_ID", Short: "Revoke a token, of a tenant or an operator", Args: exactly("a token's id")}, nil, c.tokenRevoke),
		c.tokenInspectCommand(),
	)
	return group(cmd)
}

// newAuthority makes the authority of these settings. Without a keyring it can do all but issue.
func newAuthority(s *settings.Settings, pool *pgxpool.Pool, keyring *signing.Keyring, log *slog.Logger) *tenant.Authority {
	return tenant.NewAuthority(tenant.AuthorityConfig{
		Pool: pool, Keyring: keyring, Issuer: s.AuthIssuer, Audience: s.AuthAudience, AdminAudience: settings.AdminAudience, Log: log,
	})
}

// tokenFlags is what token create is told.
type tokenFlags struct {
	admin       bool
	tenant      string
	name        string
	subject     string
	role        string
	scopes      []string
	eventScopes []string
	lifetime    time.Duration
}

func (c *cli) tokenCreateCommand() *cobra.Command {
	var f tokenFlags
	cmd := c.onDatabase(&cobra.Command{
		Use:   "create",
		Short: "Create a token and print it; it is shown this once",
		Long: "Creates a token for a tenant, or with --admin an operator's, and prints it. Its text is kept nowhere.\n\n" +
			"Roles of a tenant's: " + strings.Join(tenant.Roles(false), ", ") + "; each stands for the scopes that go together.",
		Example: "  gateway token create --admin\n  gateway token create --tenant uid:acme --role owner\n  gateway token create --tenant uid:acme --scope events:write --expires 720h",
		Args:    exactly(),
	}, []string{"SECRET_KEYS"}, func(ctx context.Context, s *settings.Settings, pool *pgxpool.Pool, _ []string) error {
		return c.tokenCreate(ctx, s, pool, f)
	})
	settingFlags(cmd, "AUTH_ISSUER", "AUTH_AUDIENCE")
	cmd.Flags().BoolVar(&f.admin, "admin", false, "an operator's, for /admin/v1")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "the tenant it speaks for, by its id or uid:<text>")
	cmd.Flags().StringVar(&f.name, "name", "", "what it is used for (default: its role)")
	cmd.Flags().StringVar(&f.subject, "subject", "", "who uses it (default: its name)")
	cmd.Flags().StringVar(&f.role, "role", "", "what it may do, by a role")
	cmd.Flags().StringSliceVar(&f.scopes, "scope", nil, "what it may do, by a scope; to be repeated")
	cmd.Flags().StringSliceVar(&f.eventScopes, "event-scope", nil, "a glob over the scopes of events that it may see and give to endpoints; to be repeated (default: all)")
	cmd.Flags().DurationVar(&f.lifetime, "expires", tenant.DefaultLifetime, "how long it is valid")
	return cmd
}

func (c *cli) tokenCreate(ctx context.Context, s *settings.Settings, pool *pgxpool.Pool, f tokenFlags) error {
	if f.admin == (f.tenant != "") {
		return usagef("a token is an operator's (--admin) or a tenant's (--tenant): say which")
	}
	spec := tenant.TokenSpec{Admin: f.admin, Name: f.name, Subject: f.subject, Role: f.role, Scopes: f.scopes, EventScopes: f.eventScopes, Lifetime: f.lifetime}
	if spec.Admin && spec.Role == "" && len(spec.Scopes) == 0 {
		spec.Role = tenant.Roles(true)[0]
	}
	if spec.Name == "" {
		spec.Name = spec.Role
	}
	if spec.Name == "" {
		spec.Name = "cli"
	}
	if f.tenant != "" {
		t, err := findTenant(ctx, tenant.NewTenants(pool), f.tenant)
		if err != nil {
			return err
		}
		spec.Tenant = t.ID
	}
	keyring, err := signing.ParseKeyring(s.SecretKeys.Reveal())
	if err != nil {
		return err
	}
	authority := newAuthority(s, pool, keyring, slog.New(slog.DiscardHandler))
	if err := authority.EnsureKey(ctx); err != nil {
		return err
	}
	token, text, err := authority.Issue(ctx, spec)
	if err != nil {
		return told(err)
	}
	shown := struct {
		tokenJSON
		Token string `json:"token"`
	}{shownToken(token), text}
	err = c.out.data(shown, func(w io.Writer) { fmt.Fprintln(w, text) })
	c.out.hint("%s, valid until %s. It is shown this once; send it as `Authorization: Bearer …`.", shown.ID, shown.ExpiresAt.Format(time.DateOnly))
	return err
}

func (c *cli) tokenListCommand() *cobra.Command {
	var ref string
	var limit int
	cmd := c.onDatabase(&cobra.Command{Use: "list", Short: "List the tokens of a tenant, or of the operators", Args: exactly()}, nil,
		func(ctx context.Context, s *settings.Settings, pool *pgxpool.Pool, _ []string) error {
			var of uuid.UUID
			if ref != "" {
				t, err := findTenant(ctx, tenant.NewTenants(pool), ref)
				if err != nil {
					return err
				}
				of = t.ID
			}
			authority := newAuthority(s, pool, nil, slog.New(slog.DiscardHandler))
			all, more, err := pages(limit, func(size int, last *tenant.Token) ([]tenant.Token, bool, error) {
				q := tenant.TokenQuery{Tenant: of, Limit: size}
				if last != nil {
					q.Before = last.ID
				}
				return authority.List(ctx, q)
			})
			if err != nil {
				return err
			}
			list, rows := make([]tokenJSON, len(all)), [][]string{{"ID", "STATE", "EXPIRES", "LAST USED", "NAME", "SCOPES"}}
			for i, t := range all {
				list[i] = shownToken(t)
				rows = append(rows, []string{list[i].ID, tokenState(t, time.Now()), t.ExpiresAt.UTC().Format(time.DateOnly), day(t.LastUsedAt), t.Name, strings.Join(t.Scopes, " ")})
			}
			err = c.out.data(list, func(w io.Writer) { columns(w, rows...) })
			if more {
				c.out.hint("There are more; see --limit.")
			}
			return err
		})
	cmd.Flags().StringVar(&ref, "tenant", "", "the tenant, by its id or uid:<text> (default: the operators)")
	cmd.Flags().IntVar(&limit, "limit", 100, "how many, at most")
	return cmd
}

func (c *cli) tokenRevoke(ctx context.Context, s *settings.Settings, pool *pgxpool.Pool, args []string) error {
	id, err := typeid.Parse(typeid.Token, args[0])
	if err != nil {
		return usagef("%q is no token's id (tok_…); `gateway token inspect` tells the id of a token", shorten(args[0]))
	}
	err = newAuthority(s, pool, nil, slog.New(slog.DiscardHandler)).Revoke(ctx, tenant.Caller{Admin: true, Subject: "operator"}, id)
	if errors.Is(err, tenant.ErrNotFound) {
		return fmt.Errorf("there is no token %s", args[0])
	}
	if err != nil {
		return err
	}
	return c.out.data(map[string]string{"revoked": args[0]}, func(io.Writer) {
		c.out.say("%s %s is revoked", c.out.paint(green, "ok"), args[0])
	})
}

// shorten keeps a text that may be a secret from being shown whole.
func shorten(text string) string {
	if len(text) > 12 {
		return text[:8] + "…"
	}
	return text
}

// tokenJSON is a token as the API shows it.
type tokenJSON struct {
	ID          string     `json:"id"`
	Tenant      string     `json:"tenant_id,omitempty"`
	Name        string     `json:"name"`
	Subject     string     `json:"subject"`
	Scopes      []string   `json:"scopes"`
	EventScopes []string   `json:"event_scopes,omitempty"`
	CreatedBy   *string    `json:"created_by,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   time.Time  `json:"expires_at"`
	LastUsedAt  *time.Time `json:"last_used_at,omitempty"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
}

func shownToken(t tenant.Token) tokenJSON {
	out := tokenJSON{typeid.Format(typeid.Token, t.ID), "", t.Name, t.Subject, t.Scopes, t.EventScopes, t.CreatedBy,
		t.CreatedAt.UTC(), t.ExpiresAt.UTC(), t.LastUsedAt, t.RevokedAt}
	if t.Tenant != nil {
		out.Tenant = typeid.Format(typeid.Tenant, *t.Tenant)
	}
	return out
}

func tokenState(t tenant.Token, now time.Time) string {
	switch {
	case t.RevokedAt != nil:
		return "revoked"
	case !now.Before(t.ExpiresAt):
		return "expired"
	default:
		return "valid"
	}
}

func day(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.DateOnly)
}
