package settings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

func TestIdle(t *testing.T) {
	t.Parallel()
	s, err := settings.Load(settings.Sources{Env: []string{"GATEWAY_DATABASE_URL=postgres:///x", "GATEWAY_SECRET_KEYS=k:" + strings.Repeat("A", 43) + "=",
		"GATEWAY_MAX_WAITERS=7", "GATEWAY_RELAY_POLL=1s"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Idle(); !slices.Equal(got, []string{"MAX_WAITERS"}) {
		t.Errorf("Idle = %v: want what was set and has no effect, and nothing else", got)
	}
	told := 0
	for _, e := range settings.List() {
		if strings.Contains(e.About, "Nothing goes by it yet") {
			told++
		}
	}
	if told == 0 || !strings.Contains(settings.Docs(), "Nothing goes by it yet") {
		t.Error("the docs do not say which settings are idle")
	}
}
