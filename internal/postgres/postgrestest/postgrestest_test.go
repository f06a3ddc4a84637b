package postgrestest_test

import (
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	for range 5 {
		b := time.Now()
		p := postgrestest.New(t)
		var n int
		if err := p.QueryRow(t.Context(), `select count(*) from gateway.deliveries`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(b))
	}
}
