package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	sallyport "github.com/sallyport-dev/sallyport"
)

// audience is whose tokens an operation takes.
type audience uint8

const (
	anyone audience = iota // no token is asked for
	tenants
	operators
)

// operation is what the contract says about one method of one path, taken apart once.
type operation struct {
	id       string
	method   string
	template string // /v1/events/{event_id}, as the log has it
	audience audience
	scope    string // empty: any token of the audience
	ops      bool   // it is on the ops port
	query    map[string]bool
	hasBody  bool
	keyed    bool // it takes an Idempotency-Key, and is carried out in one transaction with it
	maxBody  int64
	route    *routers.Route // for the validator
}

// changes says whether the operation may change something.
func (o *operation) changes() bool { return o.method != http.MethodGet }

// securitySchemes of the contract, and whose tokens they are.
func audienceOf(scheme string) (audience, bool) {
	switch scheme {
	case "tenantToken":
		return tenants, true
	case "operatorToken":
		return operators, true
	}
	return anyone, false
}

// readContract reads openapi.yaml and returns its operations.
func readContract() ([]*operation, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(sallyport.OpenAPI()))
	if err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("openapi.yaml is not valid: %w", err)
	}
	var all []*operation
	for path, item := range doc.Paths.Map() {
		for method, described := range item.Operations() {
			o, err := newOperation(doc, path, item, method, described)
			if err != nil {
				return nil, fmt.Errorf("openapi.yaml: %s %s: %w", method, path, err)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

func newOperation(doc *openapi3.T, path string, item *openapi3.PathItem, method string, described *openapi3.Operation) (*operation, error) {
	o := &operation{
		id:       described.OperationID,
		method:   method,
		template: path,
		ops:      len(item.Servers) > 0,
		hasBody:  described.RequestBody != nil,
		maxBody:  maxRequest,
		query:    make(map[string]bool),
		route:    &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: described},
	}
	switch o.id {
	case postEventID:
		o.maxBody = maxEventRequest
	case postEventsID:
		o.maxBody = maxBatchRequest
	}
	for _, list := range []openapi3.Parameters{item.Parameters, described.Parameters} {
		for _, p := range list {
			switch {
			case p.Value.In == openapi3.ParameterInQuery:
				o.query[p.Value.Name] = p.Value.Schema.Value.Type.Is(openapi3.TypeArray)
			case p.Value.In == openapi3.ParameterInHeader && p.Value.Name == "Idempotency-Key":
				o.keyed = true
			}
		}
	}
	security := doc.Security
	if described.Security != nil {
		security = *described.Security
	}
	for _, requirement := range security {
		for scheme := range requirement {
			whose, known := audienceOf(scheme)
			if !known || o.audience != anyone {
				return nil, fmt.Errorf("its security %q is none that is known here", scheme)
			}
			o.audience = whose
		}
	}
	scope, _ := described.Extensions["x-required-scope"].(string)
	switch {
	case (scope == "") != (o.audience == anyone):
		return nil, fmt.Errorf("x-required-scope is %q, with the security %v", scope, security)
	case scope != "none":
		o.scope = scope
	}
	return o, nil
}

// echoPath is a path's template as echo writes it.
func (o *operation) echoPath() string {
	return strings.NewReplacer("{", ":", "}", "").Replace(o.template)
}
