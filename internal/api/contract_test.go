package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	sallyport "github.com/sallyport-dev/sallyport"
	"github.com/sallyport-dev/sallyport/internal/api"
)

// contract is openapi.yaml as a test reads it, and which of its operations were answered how.
type contract struct {
	doc        *openapi3.T
	operations []*described

	mu   sync.Mutex
	seen map[string]bool // "operationId status"
}

// described is an operation of the contract.
type described struct {
	*openapi3.Operation
	method, path string
	item         *openapi3.PathItem
	expression   *regexp.Regexp
}

func (d *described) ops() bool { return len(d.item.Servers) > 0 }

// audience is the name of the security scheme, or empty.
func (d *described) audience(doc *openapi3.T) string {
	security := doc.Security
	if d.Security != nil {
		security = *d.Security
	}
	for _, requirement := range security {
		for name := range requirement {
			return name
		}
	}
	return ""
}

func (d *described) scope() string {
	scope, _ := d.Extensions["x-required-scope"].(string)
	return scope
}

func readContract(t testing.TB) *contract {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(sallyport.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	// OpenAPI 3.0.3 lets a schema without a type admit null, too; the validator wants to be told.
	doc.Components.Schemas["Event"].Value.Properties["data"].Value.Nullable = true
	c := &contract{doc: doc, seen: make(map[string]bool)}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			c.operations = append(c.operations, &described{operation, method, path, item, regexp.MustCompile("^" + template(path) + "$")})
		}
	}
	slices.SortFunc(c.operations, func(a, b *described) int { return strings.Compare(a.OperationID, b.OperationID) })
	return c
}

// template is the regular expression of a path's template.
func template(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = "[^/]+"
		} else {
			parts[i] = regexp.QuoteMeta(p)
		}
	}
	return strings.Join(parts, "/")
}

// find returns the operation of a request, or nil.
func (c *contract) find(method, target string) *described {
	path, _, _ := strings.Cut(target, "?")
	for _, o := range c.operations {
		if o.method == method && o.expression.MatchString(path) {
			return o
		}
	}
	return nil
}

// hold holds an answer to the contract: its status and headers, its body to the last field, its code.
func (c *contract) hold(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	if a.header.Get("X-Request-Id") == "" {
		t.Errorf("%s %s: the answer has no X-Request-Id", r.Method, r.URL.Path)
	}
	if a.status >= 400 && a.header.Get("Content-Type") != "application/problem+json" && !strings.HasSuffix(r.URL.Path, "/readyz") {
		t.Errorf("%s %s: %d without a problem: %s", r.Method, r.URL.Path, a.status, a.body)
	}
	o := c.find(r.Method, r.URL.EscapedPath())
	if o == nil || a.code() == "method_not_allowed" {
		return // there is no such operation, which is said by a 404 or 405
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: r, Route: &routers.Route{Spec: c.doc, Path: o.path, PathItem: o.item, Method: o.method, Operation: o.Operation},
		},
		Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true,
			ExcludeResponseBody: !strings.Contains(a.header.Get("Content-Type"), "json"), // a page, or the contract itself
		},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		t.Errorf("%s answers %d against the contract: %v\n%s", o.OperationID, a.status, err, a.body)
	}
	response := o.Responses.Status(a.status)
	if response == nil {
		return // told above
	}
	if media := response.Value.Content.Get(a.header.Get("Content-Type")); media != nil && strings.Contains(a.header.Get("Content-Type"), "json") {
		var body any
		d := json.NewDecoder(bytes.NewReader(a.body))
		d.UseNumber() // the data of an event may hold any
		if err := d.Decode(&body); err != nil {
			t.Errorf("%s answers %d with %q: %v", o.OperationID, a.status, a.body, err)
		}
		for _, field := range undescribed(media.Schema.Value, body, "") {
			t.Errorf("%s answers %d with a field that the contract does not have: %s", o.OperationID, a.status, field)
		}
	}
	if code := a.code(); code != "" && !slices.Contains(codesOf(response.Value), code) {
		t.Errorf("%s answers %d %s, which the contract does not have there: %v", o.OperationID, a.status, code, codesOf(response.Value))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[fmt.Sprintf("%s %d", o.OperationID, a.status)] = true
}

// codesOf are the problem codes that a response may have.
func codesOf(r *openapi3.Response) []string {
	list, _ := r.Extensions["x-problem-codes"].([]any)
	codes := make([]string, len(list))
	for i, code := range list {
		codes[i], _ = code.(string)
	}
	return codes
}

// undescribed finds the fields of a value that its schema does not name.
func undescribed(s *openapi3.Schema, value any, at string) (found []string) {
	switch v := value.(type) {
	case []any:
		if s.Items != nil {
			for i, element := range v {
				found = append(found, undescribed(s.Items.Value, element, fmt.Sprintf("%s/%d", at, i))...)
			}
		}
	case map[string]any:
		known := properties(s)
		if len(known) == 0 && s.AdditionalProperties.Schema == nil {
			return nil // any value, as the data of an event
		}
		for name, member := range v {
			switch described := known[name]; {
			case described != nil:
				found = append(found, undescribed(described, member, at+"/"+name)...)
			case s.AdditionalProperties.Schema != nil:
				found = append(found, undescribed(s.AdditionalProperties.Schema.Value, member, at+"/"+name)...)
			default:
				found = append(found, at+"/"+name)
			}
		}
	}
	return found
}

// properties are those of a schema and of the parts that it is made of.
func properties(s *openapi3.Schema) map[string]*openapi3.Schema {
	all := make(map[string]*openapi3.Schema)
	for name, p := range s.Properties {
		all[name] = p.Value
	}
	for _, part := range s.AllOf {
		for name, p := range properties(part.Value) {
			all[name] = p
		}
	}
	return all
}

func TestContractIsValidWithItsExamples(t *testing.T) {
	t.Parallel()
	if err := readContract(t).doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
}

func TestContractDescribesEverything(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	camel := regexp.MustCompile(`^(get|list|post|create|update|delete|revoke|rotate|end)[A-Z][A-Za-z]*$`)
	for _, o := range c.operations {
		t.Run(o.OperationID, func(t *testing.T) {
			t.Parallel()
			if !camel.MatchString(o.OperationID) {
				t.Error("its operationId is not a verb and a noun")
			}
			if len(o.Tags) != 1 || o.Summary == "" || o.Description == "" {
				t.Error("it has no tag, no summary or no description")
			}
			for _, p := range append(slices.Clone(o.item.Parameters), o.Parameters...) {
				if p.Value.Description == "" || p.Value.Example == nil && p.Value.Examples == nil {
					t.Errorf("its parameter %s has no description or no example", p.Value.Name)
				}
			}
			if o.RequestBody != nil && !exemplified(o.RequestBody.Value.Content) {
				t.Error("its body has no example")
			}
			if secured := c.doc.Security; o.audience(c.doc) != "" && (secured == nil || o.Responses.Status(401) == nil) {
				t.Error("it needs a token and does not describe 401")
			}
			describeKey(t, o)
			for status, r := range o.Responses.Map() {
				describeResponse(t, status, r.Value)
			}
		})
	}
}

// describeKey holds that every POST, and nothing else, takes an Idempotency-Key, and says what may come of it. The server
// carries an operation out under a key if the contract has the parameter, so none can be forgotten.
func describeKey(t *testing.T, o *described) {
	t.Helper()
	if p := o.Parameters.GetByInAndName("header", "Idempotency-Key"); (p != nil) != (o.method == "POST") {
		t.Errorf("it is a %s, and whether it takes an Idempotency-Key: %v", o.method, p != nil)
	}
	if o.method != "POST" {
		return
	}
	for status, code := range map[int]string{409: "request_in_progress", 422: "idempotency_key_reused"} {
		if r := o.Responses.Status(status); r == nil || !slices.Contains(codesOf(r.Value), code) {
			t.Errorf("its %d does not have the code %s", status, code)
		}
	}
	if r := o.Responses.Status(409); r != nil && r.Value.Headers["Retry-After"] == nil {
		t.Error("its 409 does not describe Retry-After")
	}
	for status, r := range o.Responses.Map() {
		if status < "300" && r.Value.Headers["Idempotency-Replayed"] == nil {
			t.Errorf("its %s does not describe Idempotency-Replayed", status)
		}
	}
}

func describeResponse(t *testing.T, status string, r *openapi3.Response) {
	t.Helper()
	if r.Headers["X-Request-Id"] == nil {
		t.Errorf("its %s does not describe X-Request-Id", status)
	}
	if status != "204" && status != "304" && !exemplified(r.Content) {
		t.Errorf("its %s has no example", status)
	}
	problem := r.Content.Get("application/problem+json") != nil
	if problem != (len(codesOf(r)) > 0) {
		t.Errorf("its %s does not say which codes it may have", status)
	}
	for _, code := range codesOf(r) {
		if known, ok := api.Kinds()[code]; !ok || fmt.Sprint(known) != status {
			t.Errorf("its %s has the code %s, whose status is %d", status, code, known)
		}
	}
}

func exemplified(content openapi3.Content) bool {
	for _, media := range content {
		if media.Example == nil && len(media.Examples) == 0 {
			return false
		}
	}
	return len(content) > 0
}

func TestContractHasEveryProblemCode(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	said := map[string]bool{"method_not_allowed": true} // of paths, not of an operation
	for _, r := range c.doc.Components.Responses {
		for _, code := range codesOf(r.Value) {
			said[code] = true
		}
	}
	for code := range api.Kinds() {
		if !said[code] {
			t.Errorf("no response has the code %s", code)
		}
	}
	for name, r := range c.doc.Components.Responses {
		media := r.Value.Content.Get("application/problem+json")
		if media == nil {
			continue
		}
		example, _ := media.Example.(map[string]any)
		if code, _ := example["code"].(string); !slices.Contains(codesOf(r.Value), code) || example["type"] != "/problems/"+code ||
			fmt.Sprint(example["status"]) != fmt.Sprint(api.Kinds()[code]) {
			t.Errorf("the example of %s is a problem %q that it does not have", name, code)
		}
	}
}

func TestContractDescribesEveryField(t *testing.T) {
	t.Parallel()
	for name, s := range readContract(t).doc.Components.Schemas {
		if s.Value.Description == "" && len(s.Value.AllOf) == 0 {
			t.Errorf("%s has no description", name)
		}
		for field, p := range properties(s.Value) {
			if p.Description == "" && len(p.AllOf) == 0 {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}

func TestContractDescribesWhatIsSent(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	hooks, err := json.Marshal(c.doc.Extensions["x-webhooks"])
	if err != nil {
		t.Fatal(err)
	}
	var described map[string]map[string]struct {
		Parameters  []struct{ Name, In string }
		RequestBody struct {
			Content map[string]struct{ Example any }
		}
	}
	if err := json.Unmarshal(hooks, &described); err != nil {
		t.Fatal(err)
	}
	post := described["eventDelivered"]["post"]
	if err := c.doc.Components.Schemas["DeliveredEvent"].Value.VisitJSON(post.RequestBody.Content["application/json"].Example); err != nil {
		t.Errorf("the example of a delivery: %v", err)
	}
	var names []string
	for _, p := range post.Parameters {
		names = append(names, p.Name)
	}
	if want := []string{"webhook-id", "webhook-timestamp", "webhook-signature", "webhook-event-type", "webhook-attempt"}; !slices.Equal(names, want) {
		t.Errorf("it describes the headers %v, want %v", names, want)
	}
}
