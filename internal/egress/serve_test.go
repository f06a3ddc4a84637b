package egress_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
)

// serve runs Go's own server over TLS on loopback, and returns its URL.
func serve(t testing.TB, config *tls.Config, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		<-done
	})
	return "https://" + listener.Addr().String() + "/"
}
