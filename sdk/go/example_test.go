package sallyport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	sallyport "github.com/sallyport-dev/sallyport/sdk/go"
)

// A gateway that answers the same each time, in place of one that runs: https://gateway.example.com.
func exampleGateway() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"1"`)
		switch r.Method + " " + r.URL.Path {
		case "POST /v1/events":
			_, _ = io.WriteString(w, `{"id":"evt_01k9b3vc4tf7a9q3nz5m8r2x6d","uid":"invoice-991-paid","state":"pending","duplicate":false}`)
		case "GET /v1/deliveries":
			_, _ = io.WriteString(w, `{"data":[{"id":"dlv_01k9b3vc4te0v8yh2pk6w1q9sn","state":"succeeded","attempts":1,"last_http_status":200}],"next_cursor":null}`)
		case "GET /v1/endpoints/uid:acme-billing", "PATCH /v1/endpoints/uid:acme-billing":
			_, _ = io.WriteString(w, `{"id":"ep_01k9b3v2hnfkg8w5s0b6yk3j7c","url":"https://hooks.acme.com/in","types":["invoice.paid"]}`)
		case "POST /v1/endpoints":
			_, _ = io.WriteString(w, `{"id":"ep_01k9b3v2hnfkg8w5s0b6yk3j7c","url":"https://hooks.acme.com/in","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`)
		case "POST /admin/v1/tenants":
			_, _ = io.WriteString(w, `{"id":"ten_01k9b3tq4mexq9m1x2vdg0tz5r","name":"Acme"}`)
		case "POST /admin/v1/tenants/ten_01k9b3tq4mexq9m1x2vdg0tz5r/tokens":
			_, _ = io.WriteString(w, `{"id":"tok_01k9b3tszkf2r8n4q6w0y5t1ve","token":"eyJhbGciOiJFZERTQSJ9.e30.c2ln","scopes":["events:write"]}`)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","detail":"There is nothing here that this token can see.","request_id":"5NWV3K2MB7QY"}`)
		}
	}))
}

func Example() {
	gateway := exampleGateway()
	defer gateway.Close()
	client, err := sallyport.New(gateway.URL, "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// With a UID the post is safe to repeat: here, by the client, and in your code.
	receipt, err := client.PostEvent(ctx, sallyport.EventPost{
		Type: "invoice.paid", Subject: "invoice/991", UID: "invoice-991-paid",
		Data: map[string]any{"amount": 1250, "currency": "EUR"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("committed:", receipt.ID)

	for d, err := range client.ListDeliveries(ctx, sallyport.DeliveryFilter{EventID: receipt.ID}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("delivery:", d.State, d.LastHTTPStatus)
	}
	// Output:
	// committed: evt_01k9b3vc4tf7a9q3nz5m8r2x6d
	// delivery: succeeded 200
}

// The bytes of a json.RawMessage reach the receiver unchanged.
func ExampleClient_PostEvent_raw() {
	gateway := exampleGateway()
	defer gateway.Close()
	client, _ := sallyport.New(gateway.URL, "token")
	receipt, err := client.PostEvent(context.Background(), sallyport.EventPost{
		Type: "invoice.paid", Data: json.RawMessage(`{"amount": 12.50}`),
	})
	fmt.Println(receipt.State, err)
	// Output: pending <nil>
}

func ExampleClient_CreateEndpoint() {
	gateway := exampleGateway()
	defer gateway.Close()
	client, _ := sallyport.New(gateway.URL, "token")
	endpoint, secret, err := client.CreateEndpoint(context.Background(), sallyport.EndpointCreate{
		URL: "https://hooks.acme.com/in", Types: []string{"invoice.**"},
	})
	fmt.Println(endpoint.ID, err)
	fmt.Println("give the receiver its secret, it is shown once:", strings.HasPrefix(secret, "whsec_"))
	// Output:
	// ep_01k9b3v2hnfkg8w5s0b6yk3j7c <nil>
	// give the receiver its secret, it is shown once: true
}

// A change that happens only if nobody else came first.
func ExampleIfMatch() {
	gateway := exampleGateway()
	defer gateway.Close()
	client, _ := sallyport.New(gateway.URL, "token")
	ctx := context.Background()
	endpoint, err := client.GetEndpoint(ctx, "uid:acme-billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.UpdateEndpoint(ctx, "uid:acme-billing", sallyport.EndpointPatch{
		Types:     sallyport.Set([]string{"invoice.paid"}),
		TimeoutMs: sallyport.Clear[int](), // back to the default
	}, sallyport.IfMatch(endpoint.ETag))
	if errors.Is(err, sallyport.ErrPreconditionFailed) {
		fmt.Println("read it again, and look at what changed")
	}
	fmt.Println(endpoint.ETag, err)
	// Output: "1" <nil>
}

func ExampleProblem() {
	gateway := exampleGateway()
	defer gateway.Close()
	client, _ := sallyport.New(gateway.URL, "token")
	_, err := client.GetEvent(context.Background(), "evt_00000000000000000000000001")
	fmt.Println(errors.Is(err, sallyport.ErrNotFound))
	var problem *sallyport.Problem
	if errors.As(err, &problem) {
		fmt.Println(problem.Code, problem.RequestID)
	}
	// Output:
	// true
	// not_found 5NWV3K2MB7QY
}

func ExampleAdmin() {
	gateway := exampleGateway()
	defer gateway.Close()
	admin, _ := sallyport.NewAdmin(gateway.URL, "token-of-an-operator")
	ctx := context.Background()
	tenant, err := admin.CreateTenant(ctx, sallyport.TenantCreate{Name: "Acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	token, text, err := admin.CreateTenantToken(ctx, tenant.ID, sallyport.TokenCreate{Name: "billing", Role: "publisher"})
	fmt.Println(token.Scopes, text != "", err)
	// Output: [events:write] true <nil>
}
