package api

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	sallyport "github.com/sallyport-dev/sallyport"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/glob"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// GetWhoami tells who is calling.
func (c *call) GetWhoami(ctx context.Context, _ GetWhoamiRequestObject) (GetWhoamiResponseObject, error) {
	t, err := c.cfg.Tenants.Get(ctx, c.caller.Tenant)
	if err != nil {
		return nil, err
	}
	var body Whoami
	body.Tenant.ID, body.Tenant.UID = typeid.Format(typeid.Tenant, t.ID), t.UID
	body.Tenant.Name, body.Tenant.State = t.Name, TenantState(t.State)
	body.Token.ID, body.Token.Subject = typeid.Format(typeid.Token, c.caller.Token), c.caller.Subject
	body.Token.Scopes, body.Token.ExpiresAt = namesOf[TokenScope](c.caller.Scopes), stamp(c.caller.ExpiresAt)
	if c.caller.EventScopes != nil {
		body.Token.EventScopes = &c.caller.EventScopes
	}
	body.Limits = Limits{
		EventRequestBytes: maxEventRequest, EventDataBytes: maxEventData, EventDataNesting: maxNesting,
		EventScopes: maxEventScopes, EventSubjectBytes: maxEventSubject, EventTypeBytes: glob.MaxBytes,
		BatchEvents: maxBatchEvents, BatchRequestBytes: maxBatchRequest,
		RequestBytes: maxRequest, Endpoints: c.cfg.EndpointLimit, EndpointTypes: glob.MaxList, EndpointScopes: glob.MaxList,
		EndpointHeaders: endpoint.MaxHeaders, EndpointHeaderValueBytes: endpoint.MaxHeaderValue, Page: maxPage,
	}
	return GetWhoami200JSONResponse{Body: body}, nil
}

// GetJwks tells the public keys of the tokens.
func (c *call) GetJwks(ctx context.Context, _ GetJwksRequestObject) (GetJwksResponseObject, error) {
	keys, err := c.cfg.Authority.JWKS(ctx)
	return keySet(keys), err
}

// keySet answers with a key set as it was made.
type keySet []byte

// VisitGetJwksResponse writes the answer.
func (k keySet) VisitGetJwksResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "public, max-age=60")
	return writeText(w, http.StatusOK, k)
}

// GetOpenapi tells the contract.
func (c *call) GetOpenapi(context.Context, GetOpenapiRequestObject) (GetOpenapiResponseObject, error) {
	c.x.Response().Header().Set("Cache-Control", "public, max-age=60")
	return GetOpenapi200ApplicationYamlResponse{Body: strings.NewReader(sallyport.OpenAPI()), ContentLength: int64(len(sallyport.OpenAPI()))}, nil
}

// problemPages is the whole of them: a list, and what one looks like.
var problemPages = template.Must(template.New("problems").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{if .One}}{{.One.Code}}{{else}}Problems{{end}} · Sallyport</title>
{{if .One}}<h1>{{.One.Code}}</h1>
<p><strong>{{.One.Status}} · {{.One.Title}}.</strong></p>
<p>{{.One.About}}</p>
<p>What to do: {{.One.Hint}}</p>
<p><a href="/problems">All problems</a></p>
{{else}}<h1>Problems</h1>
<p>Every error of the API is a problem document (RFC 9457) with one of these codes. The request id in it finds the rest in the log.</p>
<dl>{{range .All}}
<dt><a href="/problems/{{.Code}}">{{.Code}}</a> ({{.Status}})</dt><dd>{{.Title}}.</dd>{{end}}
</dl>
{{end}}</html>
`))

func problemPage(one *kind) (*bytes.Buffer, error) {
	var page bytes.Buffer
	err := problemPages.Execute(&page, struct {
		One *kind
		All []kind
	}{one, kinds()})
	if err != nil {
		return nil, fmt.Errorf("write the page of a problem: %w", err)
	}
	return &page, nil
}

// ListProblems shows the page of all problems.
func (c *call) ListProblems(context.Context, ListProblemsRequestObject) (ListProblemsResponseObject, error) {
	page, err := problemPage(nil)
	if err != nil {
		return nil, err
	}
	return ListProblems200TextHTMLResponse{Body: page, ContentLength: int64(page.Len())}, nil
}

// GetProblem shows the page of one problem.
func (c *call) GetProblem(_ context.Context, r GetProblemRequestObject) (GetProblemResponseObject, error) {
	k, ok := kindOf(code(r.Code))
	if !ok {
		return nil, notFound()
	}
	page, err := problemPage(&k)
	if err != nil {
		return nil, err
	}
	return GetProblem200TextHTMLResponse{Body: page, ContentLength: int64(page.Len())}, nil
}
