package sallyport

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/internal/client"
)

// Token is a credential, without its text.
type Token struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Subject     string     `json:"subject"`      // who uses it
	Scopes      []string   `json:"scopes"`       // what it may do
	EventScopes []string   `json:"event_scopes"` // globs over the scopes of events that it may see; nil: all
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   time.Time  `json:"expires_at"`
	LastUsedAt  *time.Time `json:"last_used_at"`
	RevokedAt   *time.Time `json:"revoked_at"`
}

// TokenCreate is a token to be created, with a Role or Scopes.
type TokenCreate struct {
	Name             string   `json:"name"`
	Subject          string   `json:"subject,omitempty"` // empty: the name
	Role             string   `json:"role,omitempty"`    // publisher, viewer, support, manager, owner
	Scopes           []string `json:"scopes,omitempty"`
	EventScopes      []string `json:"event_scopes,omitempty"`       // nil: those of the calling token
	ExpiresInSeconds int      `json:"expires_in_seconds,omitempty"` // 0: 90 days
	IdempotencyKey   string   `json:"-"`                            // see EndpointCreate
}

// Whoami is who calls, and what holds for it.
type Whoami struct {
	Tenant struct {
		ID    string      `json:"id"`
		UID   string      `json:"uid"`
		Name  string      `json:"name"`
		State TenantState `json:"state"`
	} `json:"tenant"`
	Token struct {
		ID          string    `json:"id"`
		Subject     string    `json:"subject"`
		Scopes      []string  `json:"scopes"`
		EventScopes []string  `json:"event_scopes"`
		ExpiresAt   time.Time `json:"expires_at"`
	} `json:"token"`
	Limits Limits `json:"limits"`
}

// Limits is what is refused above.
type Limits struct {
	EventRequestBytes        int `json:"event_request_bytes"`
	EventDataBytes           int `json:"event_data_bytes"`
	EventDataNesting         int `json:"event_data_nesting"`
	EventScopes              int `json:"event_scopes"`
	EventSubjectBytes        int `json:"event_subject_bytes"`
	EventTypeBytes           int `json:"event_type_bytes"`
	BatchEvents              int `json:"batch_events"`
	BatchRequestBytes        int `json:"batch_request_bytes"`
	RequestBytes             int `json:"request_bytes"`
	Endpoints                int `json:"endpoints"`
	EndpointTypes            int `json:"endpoint_types"`
	EndpointScopes           int `json:"endpoint_scopes"`
	EndpointHeaders          int `json:"endpoint_headers"`
	EndpointHeaderValueBytes int `json:"endpoint_header_value_bytes"`
	Page                     int `json:"page"`
}

// created is a new token.
type created struct {
	Token
	Text string `json:"token"`
}

// CreateToken makes a token for the tenant and returns it with its text, which is shown this once only. It can hold no
// more than the calling one.
func (c *Client) CreateToken(ctx context.Context, t TokenCreate) (made Token, text string, err error) {
	body, err := encode(t)
	if err != nil {
		return Token{}, "", err
	}
	var answer created
	req, err := client.NewCreateTokenRequestWithBody(c.base, &client.CreateTokenParams{IdempotencyKey: given(t.IdempotencyKey)}, jsonType, bytes.NewReader(body))
	_, err = c.call(ctx, false, &answer, req, err)
	return answer.Token, answer.Text, err
}

// ListTokens ranges over the tenant's tokens, newest first, revoked and expired ones too.
func (c *Client) ListTokens(ctx context.Context) iter.Seq2[Token, error] {
	return list[Token](ctx, c.transport, func(cursor *string) (*http.Request, error) {
		return client.NewListTokensRequest(c.base, &client.ListTokensParams{Limit: pageSize(0), Cursor: cursor})
	})
}

// RevokeToken ends a token; ending it again does nothing.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	req, err := client.NewRevokeTokenRequest(c.base, id)
	_, err = c.call(ctx, true, nil, req, err)
	return err
}

// GetWhoami reads who is calling, and the limits.
func (c *Client) GetWhoami(ctx context.Context) (Whoami, error) {
	var w Whoami
	req, err := client.NewGetWhoamiRequest(c.base)
	_, err = c.call(ctx, true, &w, req, err)
	return w, err
}

// GetJWKS reads the public keys that verify the gateway's tokens, as a JSON Web Key Set.
func (c *Client) GetJWKS(ctx context.Context) (json.RawMessage, error) {
	var keys json.RawMessage
	req, err := client.NewGetJwksRequest(c.base)
	_, err = c.call(ctx, true, &keys, req, err)
	return keys, err
}
