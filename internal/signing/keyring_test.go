package signing_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

var (
	owner = uuid.MustParse("019a0000-0000-7000-8000-000000000001")
	other = uuid.MustParse("019a0000-0000-7000-8000-000000000002")
)

// entry is an entry of a key ring whose key is easy to find in a text.
const entry = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func keys(t testing.TB, text string) *signing.Keyring {
	t.Helper()
	ring, err := signing.ParseKeyring(text)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newKey(t testing.TB, id string) string {
	t.Helper()
	text, err := signing.NewKey(id)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatIsSealedOpens(t *testing.T) {
	t.Parallel()
	ring := keys(t, entry)
	for _, plain := range [][]byte{nil, {0}, []byte(shown), bytes.Repeat([]byte("x"), 300_000)} {
		sealed, err := ring.Seal(plain, "endpoint secret", owner)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(sealed) - len(plain); got != 46+len("k1") {
			t.Errorf("a seal adds %d bytes, want %d", got, 46+len("k1"))
		}
		opened, err := ring.Open(sealed, "endpoint secret", owner)
		if err != nil || !bytes.Equal(opened, plain) {
			t.Errorf("got %d bytes (%v), want the %d that were sealed", len(opened), err, len(plain))
		}
	}
}

func TestTheSameBytesAreSealedAnewEachTime(t *testing.T) {
	t.Parallel()
	ring := keys(t, entry)
	heads := make(map[string]bool)
	for range 1000 {
		sealed, err := ring.Seal([]byte(shown), "p", owner)
		if err != nil {
			t.Fatal(err)
		}
		saltAndNonce := string(sealed[4 : 4+16+12])
		if heads[saltAndNonce] {
			t.Fatal("salt and nonce came twice")
		}
		heads[saltAndNonce] = true
		if bytes.Contains(sealed, []byte(shown[6:])) {
			t.Fatal("the plain text is in the seal")
		}
	}
}

// goldenSeal holds "what was sealed", for the purpose "golden" and the owner above. It was made by Python's
// cryptography package from the description in keyring.go.
const goldenSeal = "AQJrMTIzNDU2Nzg5Ojs8PT4/QEFQUVJTVFVWV1hZWlvdlW0BZ6N6M8zwWZ7zV62Sm27XJZ0O2EB7JZ+ohJQb"

// The golden seal must open for ever: rows of older versions hold such.
func TestOldSealsOpen(t *testing.T) {
	t.Parallel()
	sealed, err := base64.StdEncoding.DecodeString(goldenSeal)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := keys(t, entry).Open(sealed, "golden", owner)
	if err != nil || string(opened) != "what was sealed" {
		t.Errorf("got %q (%v)", opened, err)
	}
}

func TestABrokenSealDoesNotOpen(t *testing.T) {
	t.Parallel()
	ring := keys(t, entry)
	sealed, err := ring.Seal([]byte("plain"), "p", owner)
	if err != nil {
		t.Fatal(err)
	}
	fails := func(name string, sealed []byte, purpose string, owner uuid.UUID, ring *signing.Keyring) {
		t.Helper()
		if plain, err := ring.Open(sealed, purpose, owner); !errors.Is(err, signing.ErrSealBroken) || plain != nil {
			t.Errorf("%s: got %q, %v, want %v", name, plain, err, signing.ErrSealBroken)
		}
	}
	for i := range sealed {
		fails("cut short", sealed[:i], "p", owner, ring)
		changed := slices.Clone(sealed)
		changed[i] ^= 1
		if i >= 1 && i <= 3 { // where the id of the key stands: it names another one, or none
			plain, err := ring.Open(changed, "p", owner)
			if plain != nil || (!errors.Is(err, signing.ErrUnknownKey) && !errors.Is(err, signing.ErrSealBroken)) {
				t.Errorf("byte %d changed: got %q, %v", i, plain, err)
			}
			continue
		}
		fails("a bit changed", changed, "p", owner, ring)
	}
	fails("a byte longer", append(slices.Clone(sealed), 0), "p", owner, ring)
	fails("for another purpose", sealed, "q", owner, ring)
	fails("for no purpose", sealed, "", owner, ring)
	fails("for another owner", sealed, "p", other, ring)
	fails("under another key of the same id", sealed, "p", owner, keys(t, newKey(t, "k1")))
	fails("never sealed", []byte(shown), "p", owner, ring)
	fails("nothing", nil, "p", owner, ring)
}

func TestAPurposeAndAnOwnerAreNotAnotherPair(t *testing.T) {
	t.Parallel()
	ring := keys(t, entry)
	sealed, err := ring.Seal([]byte("plain"), "p"+string(owner[:1]), uuid.UUID(append(owner[1:], 'x')))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Open(sealed, "p", owner); !errors.Is(err, signing.ErrSealBroken) {
		t.Errorf("got %v, want %v", err, signing.ErrSealBroken)
	}
}

func TestKeysAreChangedWithoutLosingWhatIsSealed(t *testing.T) {
	t.Parallel()
	was, is := newKey(t, "2025"), newKey(t, "2026")
	before := keys(t, was)
	sealed, err := before.Seal([]byte("plain"), "p", owner)
	if err != nil {
		t.Fatal(err)
	}
	if before.NeedsReseal(sealed) {
		t.Error("what the first key sealed needs no new seal")
	}

	both := keys(t, is+","+was)
	if !both.NeedsReseal(sealed) {
		t.Error("what an old key sealed needs a new seal")
	}
	again, err := both.Reseal(sealed, "p", owner)
	if err != nil {
		t.Fatal(err)
	}
	if both.NeedsReseal(again) {
		t.Error("what was sealed anew needs no new seal")
	}
	if _, err := both.Reseal(sealed, "p", other); !errors.Is(err, signing.ErrSealBroken) {
		t.Errorf("for another owner: got %v, want %v", err, signing.ErrSealBroken)
	}

	after := keys(t, is)
	if plain, err := after.Open(again, "p", owner); err != nil || string(plain) != "plain" {
		t.Errorf("got %q (%v) without the old key", plain, err)
	}
	if _, err := after.Open(sealed, "p", owner); !errors.Is(err, signing.ErrUnknownKey) || !strings.Contains(err.Error(), "2025") {
		t.Errorf("got %v, want %v and the key's id", err, signing.ErrUnknownKey)
	}
	if !after.NeedsReseal(sealed) || after.NeedsReseal([]byte("no seal")) {
		t.Error("a seal of an unknown key needs a new one, and what is no seal needs none")
	}
	if got := both.KeyIDs(); !slices.Equal(got, []string{"2026", "2025"}) {
		t.Errorf("got ids %v, want the first to seal first", got)
	}
}

func TestAKeyRingIsReadStrictly(t *testing.T) {
	t.Parallel()
	key := strings.TrimPrefix(entry, "k1:")
	for name, text := range map[string]string{
		"one":                            entry,
		"three":                          entry + ",k2:" + key + ",k-_3:" + key,
		"a line break at the end":        entry + "\n",
		"white space between":            entry + ",\n\tk2:" + key,
		"an id of 32":                    strings.Repeat("a", 32) + ":" + key,
		"an id that looks like a prefix": "whsec_:" + key,
	} {
		if _, err := signing.ParseKeyring(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                 {"", "empty"},
		"white space":             {" \n", "empty"},
		"a key without an id":     {key, "entry 1 of 1: there is no colon"},
		"an empty id":             {":" + key, "no id"},
		"the key before the id":   {key + ":k1", "no id"},
		"an id of 33":             {strings.Repeat("a", 33) + ":" + key, "no id"},
		"a dot in the id":         {"k.1:" + key, "no id"},
		"a comma at the end":      {entry + ",", "entry 2 of 2: there is no colon"},
		"no key":                  {"k1:", "0 bytes"},
		"a key of 31 bytes":       {"k1:" + base64.StdEncoding.EncodeToString(make([]byte, 31)), "31 bytes"},
		"a key of 33 bytes":       {entry + ",k2:" + base64.StdEncoding.EncodeToString(make([]byte, 33)), "entry 2 of 2: the key holds 33 bytes"},
		"a key without padding":   {strings.TrimSuffix(entry, "="), "padding"},
		"a key in hex":            {"k1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "48 bytes"},
		"a key in URL alphabet":   {"k1:-_" + key[2:], "URL alphabet"},
		"a key of zeros":          {"k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "over and over"},
		"an id twice":             {entry + ",k2:" + key + "," + entry, "entry 3 of 3: an entry before it has the same id"},
		"a space after the colon": {"k1: " + key, "white space"},
	} {
		ring, err := signing.ParseKeyring(c.text)
		if !errors.Is(err, signing.ErrMalformedKeys) || ring != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %v and %q in it", name, err, signing.ErrMalformedKeys, c.want)
			continue
		}
		for _, part := range []string{key[:12], key[20:40], "0001020304", strings.Repeat("a", 33)} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error tells of the key: %v", name, err)
			}
		}
	}
}

func TestNewKeysMakeAKeyRing(t *testing.T) {
	t.Parallel()
	first, second := newKey(t, "dev"), newKey(t, "dev")
	if first == second {
		t.Error("a key came twice")
	}
	if got := keys(t, first).KeyIDs(); !slices.Equal(got, []string{"dev"}) {
		t.Errorf("got ids %v, want dev", got)
	}
	if text, err := signing.NewKey("a b"); !errors.Is(err, signing.ErrMalformedKeys) || text != "" {
		t.Errorf("got %v for a malformed id, want %v", err, signing.ErrMalformedKeys)
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	ring := keys(b, entry)
	b.ReportAllocs()
	for b.Loop() {
		sealed, err := ring.Seal([]byte(shown), "p", owner)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ring.Open(sealed, "p", owner); err != nil {
			b.Fatal(err)
		}
	}
}
