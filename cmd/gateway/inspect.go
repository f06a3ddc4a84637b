package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

func (c *cli) tokenInspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect [TOKEN]",
		Short: "Explain a token, offline; without one it is read from standard input",
		Long: "Says what a token claims and what of it would be refused, by this machine's clock and settings.\n" +
			"Nothing is asked: whether its signature is right, and whether it is revoked, only the gateway knows.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one token", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.load(cmd)
			if err != nil {
				return err
			}
			var text string
			if len(args) == 1 && args[0] != "-" {
				text = args[0]
			} else {
				data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 64<<10))
				if err != nil {
					return fmt.Errorf("read the token from standard input: %w", err)
				}
				text = string(data)
			}
			return c.inspect(s, text, time.Now())
		},
	}
	settingFlags(cmd, "AUTH_ISSUER", "AUTH_AUDIENCE")
	return cmd
}

// inspection is what can be told of a token without asking anybody.
type inspection struct {
	Kind        string     `json:"kind"` // tenant, operator, or unknown
	ID          string     `json:"id,omitempty"`
	Tenant      string     `json:"tenant_id,omitempty"`
	Subject     string     `json:"subject,omitempty"`
	Issuer      string     `json:"issuer,omitempty"`
	Audience    []string   `json:"audience,omitempty"`
	Scopes      []string   `json:"scopes,omitempty"`
	EventScopes []string   `json:"event_scopes,omitempty"`
	Algorithm   string     `json:"algorithm,omitempty"`
	KeyID       string     `json:"key_id,omitempty"`
	IssuedAt    *time.Time `json:"issued_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	Problems    []string   `json:"problems"`
}

// inspect tells what a token says, and fails if it would be refused.
func (c *cli) inspect(s *settings.Settings, text string, now time.Time) error {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "Bearer "))
	in, err := explain(text)
	if err != nil {
		return err
	}
	in.judge(s, now)
	err = c.out.data(in, func(w io.Writer) { columns(w, in.rows(now)...) })
	if err != nil {
		return err
	}
	if len(in.Problems) > 0 {
		return fmt.Errorf("the gateway would refuse it: %s", strings.Join(in.Problems, "; "))
	}
	c.out.hint("Nothing here speaks against it. Whether its signature is right, and whether it is revoked, only the gateway knows.")
	return nil
}

// explain takes a token apart, or says what else the text is.
func explain(text string) (*inspection, error) {
	switch {
	case text == "":
		return nil, usagef("there is no token: give it as an argument or on standard input")
	case strings.HasPrefix(text, "whsec_"):
		return nil, usagef("this is the signing secret of an endpoint, not a token. A receiver verifies with it; it does not open the API")
	case strings.HasPrefix(text, "tok_"):
		return nil, usagef("this is the id of a token, not the token. The text of a token is shown once, when it is created")
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, usagef("this is no token: it has %d parts with dots between, and a token has 3", len(parts))
	}
	var head struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
	}
	var body struct {
		ID          string          `json:"jti"`
		Tenant      string          `json:"ten"`
		Subject     string          `json:"sub"`
		Issuer      string          `json:"iss"`
		Audience    json.RawMessage `json:"aud"`
		Scope       string          `json:"scope"`
		EventScopes []string        `json:"evs"`
		IssuedAt    *float64        `json:"iat"`
		ExpiresAt   *float64        `json:"exp"`
	}
	for i, to := range []any{&head, &body} {
		data, err := base64.RawURLEncoding.Strict().DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(data, to)
		}
		if err != nil {
			return nil, usagef("this is no token: its %s cannot be read; was it cut, or copied with a line break?", [2]string{"first part", "second part"}[i])
		}
	}
	in := &inspection{
		Kind: "unknown", ID: body.ID, Tenant: body.Tenant, Subject: body.Subject, Issuer: body.Issuer, Scopes: strings.Fields(body.Scope),
		EventScopes: body.EventScopes, Algorithm: head.Algorithm, KeyID: head.KeyID, IssuedAt: when(body.IssuedAt), ExpiresAt: when(body.ExpiresAt),
		Problems: []string{},
	}
	var one string
	if json.Unmarshal(body.Audience, &one) == nil {
		in.Audience = []string{one}
	} else {
		_ = json.Unmarshal(body.Audience, &in.Audience) // whatever else it is is told as an audience that is missing
	}
	return in, nil
}

// when is a time in seconds since 1970.
func when(seconds *float64) *time.Time {
	if seconds == nil || *seconds < 0 || *seconds > 1<<40 {
		return nil
	}
	t := time.Unix(int64(*seconds), 0).UTC()
	return &t
}

// judge finds what a gateway with these settings would refuse.
func (in *inspection) judge(s *settings.Settings, now time.Time) {
	bad := func(format string, args ...any) { in.Problems = append(in.Problems, fmt.Sprintf(format, args...)) }
	switch {
	case len(in.Audience) == 1 && in.Audience[0] == settings.AdminAudience:
		in.Kind = "operator"
		if in.Tenant != "" {
			bad("an operator's token names no tenant, and this one does")
		}
	case len(in.Audience) == 1 && in.Audience[0] == s.AuthAudience:
		in.Kind = "tenant"
		if in.Tenant == "" {
			bad("a tenant's token names its tenant (ten), and this one does not")
		}
	default:
		bad("it is meant for %s, not for %s or %s (aud)", orNobody(in.Audience), s.AuthAudience, settings.AdminAudience)
	}
	if in.Issuer != s.AuthIssuer {
		bad("it is from the issuer %q, not %q (iss)", in.Issuer, s.AuthIssuer)
	}
	switch in.Algorithm {
	case "EdDSA", "ES256", "RS256":
	default:
		bad("it is signed with %q, which is never taken (alg)", in.Algorithm)
	}
	switch {
	case in.ExpiresAt == nil:
		bad("it never expires, which is not allowed (exp)")
	case !now.Before(*in.ExpiresAt):
		bad("it has expired at %s, %s ago", in.ExpiresAt.Format(time.RFC3339), now.Sub(*in.ExpiresAt).Round(time.Second))
	}
	if in.IssuedAt != nil && in.IssuedAt.After(now.Add(time.Minute)) {
		bad("it is from the future, %s ahead of this clock (iat)", in.IssuedAt.Sub(now).Round(time.Second))
	}
	if len(in.Scopes) == 0 {
		bad("it allows nothing (scope)")
	}
}

func orNobody(list []string) string {
	if len(list) == 0 {
		return "nobody"
	}
	return strings.Join(list, ", ")
}

func (in *inspection) rows(now time.Time) [][]string {
	rows := [][]string{{"kind", in.Kind}}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	add("id", in.ID)
	add("tenant", in.Tenant)
	add("subject", in.Subject)
	add("issuer", in.Issuer)
	add("audience", strings.Join(in.Audience, ", "))
	add("scopes", strings.Join(in.Scopes, " "))
	add("role", roleOf(in))
	add("event scopes", strings.Join(in.EventScopes, " "))
	add("signed", strings.TrimSpace(in.Algorithm+" "+in.KeyID))
	if in.IssuedAt != nil {
		add("issued", in.IssuedAt.Format(time.RFC3339))
	}
	if in.ExpiresAt != nil {
		left := in.ExpiresAt.Sub(now).Round(time.Second)
		if left > 0 {
			add("expires", fmt.Sprintf("%s, in %s", in.ExpiresAt.Format(time.RFC3339), left))
		} else {
			add("expired", fmt.Sprintf("%s, %s ago", in.ExpiresAt.Format(time.RFC3339), -left))
		}
	}
	return rows
}

// roleOf is the role that stands for exactly the token's scopes, if there is one.
func roleOf(in *inspection) string {
	held := make(map[string]bool)
	for _, scope := range in.Scopes {
		held[scope] = true
	}
	for _, role := range tenant.Roles(in.Kind == "operator") {
		all := tenant.ScopesOf(role, in.Kind == "operator")
		same := len(all) == len(held)
		for _, scope := range all {
			same = same && held[scope]
		}
		if same {
			return role
		}
	}
	return ""
}
