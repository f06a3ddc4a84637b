package typeid_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/typeid"
)

func TestIDs(t *testing.T) {
	t.Parallel()

	t.Run("what is written is read back, and nothing but it", func(t *testing.T) {
		t.Parallel()
		for range 1000 {
			id := uuid.Must(uuid.NewV7())
			text := typeid.Format(typeid.Event, id)
			got, err := typeid.Parse(typeid.Event, text)
			if err != nil || got != id {
				t.Fatalf("Parse(%q) = %v, %v; want %v", text, got, err, id)
			}
			for _, other := range []string{
				strings.ToUpper(text), text + "0", text[:len(text)-1], " " + text, strings.Replace(text, "evt", "ep", 1),
			} {
				if _, err := typeid.Parse(typeid.Event, other); !errors.Is(err, typeid.ErrMalformed) {
					t.Errorf("Parse(%q) = %v, want ErrMalformed", other, err)
				}
			}
		}
	})

	t.Run("the published example of the format", func(t *testing.T) {
		t.Parallel()
		// From the valid cases of the TypeID specification.
		id := uuid.MustParse("0188bac7-4afa-78aa-bc3b-bd1eef28d881")
		if got := typeid.Format("prefix", id); got != "prefix_01h2xcejqtf2nbrexx3vqjhp41" {
			t.Errorf("Format = %q", got)
		}
	})

	t.Run("malformed ids", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "evt", "evt_", "evt_" + strings.Repeat("z", 26), "evt_" + strings.Repeat("é", 13), "\x00"} {
			if _, err := typeid.Parse(typeid.Event, text); !errors.Is(err, typeid.ErrMalformed) {
				t.Errorf("Parse(%q) = %v, want ErrMalformed", text, err)
			}
		}
	})
}
