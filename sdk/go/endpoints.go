package sallyport

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/internal/client"
)

// EndpointState says whether an endpoint gets deliveries.
type EndpointState string

// The states of an endpoint; new ones may come.
const (
	EndpointEnabled  EndpointState = "enabled"
	EndpointPaused   EndpointState = "paused"
	EndpointDisabled EndpointState = "disabled"
)

// Endpoint is a receiver.
type Endpoint struct {
	ID             string            `json:"id"`
	UID            string            `json:"uid"`
	URL            string            `json:"url"`
	Description    string            `json:"description"`
	Types          []string          `json:"types"`        // globs: what it wants
	Scopes         []string          `json:"scopes"`       // globs: what it may receive
	HeaderNames    []string          `json:"header_names"` // of its own headers
	Metadata       map[string]string `json:"metadata"`
	TimeoutMs      int               `json:"timeout_ms"`
	MaxInFlight    int               `json:"max_in_flight"`
	Schedule       []int             `json:"schedule"` // seconds between tries; nil: the gateway's
	State          EndpointState     `json:"state"`
	DisabledReason string            `json:"disabled_reason"` // failing, gone, manual
	StateAt        time.Time         `json:"state_at"`
	Health         EndpointHealth    `json:"health"`
	Secrets        []SecretInfo      `json:"secrets"` // that sign, the newest first
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`
	// ETag is the version that was read, for IfMatch; empty in lists.
	ETag string `json:"-"`
}

// EndpointHealth is how deliveries to an endpoint fare.
type EndpointHealth struct {
	Status        string     `json:"status"` // healthy, failing, unverified
	FailingSince  *time.Time `json:"failing_since"`
	LastSuccessAt *time.Time `json:"last_success_at"`
	LastFailureAt *time.Time `json:"last_failure_at"`
	LastClass     string     `json:"last_class"`
	Failures      int        `json:"failures"` // in a row
	CooldownUntil *time.Time `json:"cooldown_until"`
}

// SecretInfo is a signing secret without the secret.
type SecretInfo struct {
	Fingerprint string     `json:"fingerprint"`
	CreatedAt   time.Time  `json:"created_at"`
	RetiresAt   *time.Time `json:"retires_at"`
}

// EndpointCreate is an endpoint to be created; only URL is needed.
type EndpointCreate struct {
	URL         string            `json:"url"`
	UID         string            `json:"uid,omitempty"`
	Description string            `json:"description,omitempty"`
	Types       []string          `json:"types,omitempty"`  // nil: everything
	Scopes      []string          `json:"scopes,omitempty"` // nil: all that the token may see
	Headers     map[string]string `json:"headers,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	TimeoutMs   int               `json:"timeout_ms,omitempty"`
	MaxInFlight int               `json:"max_in_flight,omitempty"`
	Schedule    []int             `json:"schedule,omitempty"` // seconds between tries
	Secret      string            `json:"secret,omitempty"`   // brought from elsewhere; empty: a new one is made
	// IdempotencyKey names the request: sent again under it within 24 hours, also by another process, it is not carried out
	// again but gets the first answer, the secret too. 1 to 255 printable ASCII characters without spaces; the content and
	// the token must be the same. Empty: each call has a new one, for its own retries.
	IdempotencyKey string `json:"-"`
}

// EndpointPatch is a change of an endpoint; zero fields stay as they are.
type EndpointPatch struct {
	URL         Field[string]             `json:"url,omitzero"` // cannot be cleared
	UID         Field[string]             `json:"uid,omitzero"`
	Description Field[string]             `json:"description,omitzero"`
	Types       Field[[]string]           `json:"types,omitzero"`
	Scopes      Field[[]string]           `json:"scopes,omitzero"`
	Headers     Field[map[string]*string] `json:"headers,omitzero"`  // one by one; nil removes one
	Metadata    Field[map[string]*string] `json:"metadata,omitzero"` // one by one; nil removes one
	TimeoutMs   Field[int]                `json:"timeout_ms,omitzero"`
	MaxInFlight Field[int]                `json:"max_in_flight,omitzero"`
	Schedule    Field[[]int]              `json:"schedule,omitzero"`
}

// EndpointFilter says which endpoints a list holds; the zero value: all.
type EndpointFilter struct {
	States   []EndpointState
	Health   string // healthy, failing, unverified
	UID      string
	PageSize int // how many are fetched at once, 1 to 200; 0: 200
}

// CreateEndpoint creates an endpoint and returns it with its signing secret, which is shown this once only.
func (c *Client) CreateEndpoint(ctx context.Context, e EndpointCreate) (made Endpoint, secret string, err error) {
	body, err := encode(e)
	if err != nil {
		return Endpoint{}, "", err
	}
	var created struct {
		Endpoint
		Secret string `json:"secret"`
	}
	req, err := client.NewCreateEndpointRequestWithBody(c.base, &client.CreateEndpointParams{IdempotencyKey: given(e.IdempotencyKey)}, jsonType, bytes.NewReader(body))
	header, err := c.call(ctx, false, &created, req, err)
	created.ETag = header.Get("ETag")
	return created.Endpoint, created.Secret, err
}

// GetEndpoint reads an endpoint by its id, or by "uid:" and your own name for it.
func (c *Client) GetEndpoint(ctx context.Context, id string) (Endpoint, error) {
	var e Endpoint
	req, err := client.NewGetEndpointRequest(c.base, id, nil)
	header, err := c.call(ctx, true, &e, req, err)
	e.ETag = header.Get("ETag")
	return e, err
}

// ListEndpoints ranges over endpoints, newest first.
func (c *Client) ListEndpoints(ctx context.Context, f EndpointFilter) iter.Seq2[Endpoint, error] {
	return list[Endpoint](ctx, c.transport, func(cursor *string) (*http.Request, error) {
		p := &client.ListEndpointsParams{
			Limit: pageSize(f.PageSize), Cursor: cursor, State: several[client.EndpointState](f.States), UID: given(f.UID),
		}
		if f.Health != "" {
			health := client.EndpointHealthStatus(f.Health)
			p.Health = &health
		}
		return client.NewListEndpointsRequest(c.base, p)
	})
}

// UpdateEndpoint changes an endpoint and returns it as it is then.
func (c *Client) UpdateEndpoint(ctx context.Context, id string, patch EndpointPatch, conditions ...Condition) (Endpoint, error) {
	body, err := encode(patch)
	if err != nil {
		return Endpoint{}, err
	}
	var e Endpoint
	req, err := client.NewUpdateEndpointRequestWithBody(c.base, id, &client.UpdateEndpointParams{IfMatch: ifMatch(conditions)}, jsonType, bytes.NewReader(body))
	header, err := c.call(ctx, false, &e, req, err)
	e.ETag = header.Get("ETag")
	return e, err
}

// DeleteEndpoint deletes an endpoint; its open deliveries end.
func (c *Client) DeleteEndpoint(ctx context.Context, id string, conditions ...Condition) error {
	req, err := client.NewDeleteEndpointRequest(c.base, id, &client.DeleteEndpointParams{IfMatch: ifMatch(conditions)})
	_, err = c.call(ctx, false, nil, req, err)
	return err
}

// Rotation says how a secret is rotated. The zero value makes a new secret, and lets the one before sign on for as long as
// the gateway is set to.
type Rotation struct {
	Secret string         // brought along; empty: a new one is made
	Grace  *time.Duration // how long the one before signs on, in whole seconds up to 7 days; 0 stops it at once
	// IdempotencyKey is as in EndpointCreate.
	IdempotencyKey string
}

// RotateSecret gives an endpoint a new secret, and returns it, this once, with the endpoint.
func (c *Client) RotateSecret(ctx context.Context, id string, r Rotation, conditions ...Condition) (rotated Endpoint, secret string, err error) {
	var body client.SecretRotation
	if r.Secret != "" {
		body.Secret = &r.Secret
	}
	if r.Grace != nil {
		seconds := int(r.Grace.Seconds())
		body.GraceSeconds = &seconds
	}
	var made struct {
		Endpoint
		Secret string `json:"secret"`
	}
	req, err := client.NewRotateSecretRequest(c.base, id, &client.RotateSecretParams{IfMatch: ifMatch(conditions), IdempotencyKey: given(r.IdempotencyKey)}, body)
	header, err := c.call(ctx, false, &made, req, err)
	made.ETag = header.Get("ETag")
	return made.Endpoint, made.Secret, err
}

// EndPreviousSecrets ends the grace of previous secrets: the newest alone signs from now on.
func (c *Client) EndPreviousSecrets(ctx context.Context, id string, conditions ...Condition) (Endpoint, error) {
	req, err := client.NewEndPreviousSecretsRequest(c.base, id, &client.EndPreviousSecretsParams{IfMatch: ifMatch(conditions)})
	var e Endpoint
	header, err := c.call(ctx, false, &e, req, err)
	e.ETag = header.Get("ETag")
	return e, err
}
