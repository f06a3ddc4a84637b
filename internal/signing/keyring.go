package signing

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/google/uuid"
)

var (
	// ErrMalformedKeys says that the text of a key ring can't be read. What wraps it names the place and what is
	// wrong there, and never repeats any of the text.
	ErrMalformedKeys = errors.New("malformed key ring")
	// ErrUnknownKey says that something was sealed under a key that is not on the ring. What wraps it tells the
	// key's id. Nothing is lost: put the key back, behind the first.
	ErrUnknownKey = errors.New("sealed under a key that is not on the ring")
	// ErrSealBroken says that bytes do not open: they were changed or cut, sealed for another purpose or owner, or
	// the ring holds another key under the same id.
	ErrSealBroken = errors.New("broken seal")
)

// A seal is: the version, the length of the key's id, the id, a salt, the nonce, the ciphertext and its tag.
//
// No two seals share a key: each has its own, derived with HKDF from the ring's key and a random salt. AES-GCM with
// random nonces of 96 bits is good for 2^32 messages under one key, which 1,000 a second would use up in 50 days;
// with the salt there is no such limit, and nobody has to count.
const (
	sealVersion = 1
	sealKey     = 32 // bytes: AES-256
	saltSize    = 16
	nonceAndTag = 12 + 16
	maxKeyID    = 32
	sealInfo    = "sallyport seal 1"
)

// Keyring seals with its first key and opens with any of them. It may be used by many goroutines at once, and prints
// without its keys.
type Keyring struct {
	keys []*ringKey
}

type ringKey struct {
	id  string
	key func() []byte // see Secret
}

// ParseKeyring reads the keys of a ring: "id:key" or, while keys are being changed, "new:key,old:key". The first one
// seals, all of them open. An id is 1 to 32 of A-Z a-z 0-9 _ and -, a key the standard base64 of 32 bytes. White space
// around an entry is let pass, since files end in a line break. Anything else is ErrMalformedKeys.
func ParseKeyring(text string) (*Keyring, error) {
	entries := strings.Split(text, ",")
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%w: it is empty, want id:key", ErrMalformedKeys)
	}
	ring := &Keyring{}
	for i, entry := range entries {
		key, err := parseEntry(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d of %d: %w", ErrMalformedKeys, i+1, len(entries), err)
		}
		if ring.find(key.id) != nil {
			return nil, fmt.Errorf("%w: entry %d of %d: an entry before it has the same id", ErrMalformedKeys, i+1, len(entries))
		}
		ring.keys = append(ring.keys, key)
	}
	return ring, nil
}

// What can be wrong with an entry. None repeats any of it: what stands in the place of the id may be the key.
var (
	errNoColon = errors.New("there is no colon in it, want id:key")
	errKeyID   = errors.New("what stands before the colon is no id: want 1 to 32 of A-Z a-z 0-9 _ and -")
	errUniform = errors.New("the key is one byte over and over, want random bytes")
)

func parseEntry(entry string) (*ringKey, error) {
	id, encoded, ok := strings.Cut(entry, ":")
	if !ok {
		return nil, errNoColon
	}
	if !validKeyID(id) {
		return nil, errKeyID
	}
	key, err := decode(encoded)
	if err != nil {
		return nil, fmt.Errorf("the key can't be read: %w", err)
	}
	if len(key) != sealKey {
		return nil, fmt.Errorf("the key holds %d bytes, and must hold %d", len(key), sealKey)
	}
	if strings.Trim(string(key), string(key[:1])) == "" { // a placeholder that was never filled in
		return nil, errUniform
	}
	return &ringKey{id: id, key: func() []byte { return key }}, nil
}

func validKeyID(id string) bool {
	if id == "" || len(id) > maxKeyID {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// NewKey makes an entry for ParseKeyring with a random key: "id:key". It is key material as plain text: write it where
// the ring is kept and nowhere else.
func NewKey(id string) (string, error) {
	if !validKeyID(id) {
		return "", fmt.Errorf("%w: %w", ErrMalformedKeys, errKeyID)
	}
	key := make([]byte, sealKey)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return id + ":" + base64.StdEncoding.EncodeToString(key), nil
}

// Seal encrypts plain under the first key, tied to what it is for and to the row that owns it. It adds 46 bytes and
// the key's id. Sealing the same bytes twice gives different ones.
func (k *Keyring) Seal(plain []byte, purpose string, owner uuid.UUID) ([]byte, error) {
	key := k.keys[0]
	head := append([]byte{sealVersion, byte(len(key.id))}, key.id...)
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := key.derive(salt)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	sealed := make([]byte, 0, len(head)+saltSize+nonceAndTag+len(plain))
	sealed = append(append(sealed, head...), salt...)
	return aead.Seal(sealed, nil, plain, bind(head, purpose, owner)), nil
}

// Open gives back what Seal was given, if purpose and owner are the same. The errors are ErrUnknownKey and
// ErrSealBroken.
func (k *Keyring) Open(sealed []byte, purpose string, owner uuid.UUID) ([]byte, error) {
	id, head, rest, err := parseSeal(sealed)
	if err != nil {
		return nil, err
	}
	key := k.find(id)
	if key == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownKey, id)
	}
	aead, err := key.derive(rest[:saltSize])
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	plain, err := aead.Open(nil, nil, rest[saltSize:], bind(head, purpose, owner))
	if err != nil {
		return nil, fmt.Errorf("%w: changed, cut, or sealed under another key %q, purpose or owner", ErrSealBroken, id)
	}
	return plain, nil
}

// NeedsReseal says whether bytes were sealed under another key than the first: once none do, the others may leave the
// ring. It reads the seal's head only; what is no seal at all needs none.
func (k *Keyring) NeedsReseal(sealed []byte) bool {
	id, _, _, err := parseSeal(sealed)
	return err == nil && id != k.keys[0].id
}

// Reseal opens bytes and seals them under the first key, for the same purpose and owner. Call it for what NeedsReseal.
func (k *Keyring) Reseal(sealed []byte, purpose string, owner uuid.UUID) ([]byte, error) {
	plain, err := k.Open(sealed, purpose, owner)
	if err != nil {
		return nil, err
	}
	return k.Seal(plain, purpose, owner)
}

// KeyIDs lists the ids of the keys, the one that seals first.
func (k *Keyring) KeyIDs() []string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.id
	}
	return ids
}

func (k *Keyring) find(id string) *ringKey {
	for _, key := range k.keys {
		if key.id == id {
			return key
		}
	}
	return nil
}

// derive makes the cipher of one seal. It puts the nonce in front of the ciphertext itself.
func (k *ringKey) derive(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.key(), salt, sealInfo, sealKey)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// bind is what a seal vouches for besides its content. The purpose has its length before it, so that no purpose and
// owner can be read as another pair.
func bind(head []byte, purpose string, owner uuid.UUID) []byte {
	data := make([]byte, 0, len(head)+4+len(purpose)+len(owner))
	data = append(data, head...)
	data = binary.BigEndian.AppendUint32(data, uint32(len(purpose)))
	data = append(data, purpose...)
	return append(data, owner[:]...)
}

// parseSeal takes a seal apart: the key's id, the head with it, and the rest from the salt on.
func parseSeal(sealed []byte) (id string, head, rest []byte, err error) {
	if len(sealed) < 2 || sealed[0] != sealVersion {
		return "", nil, nil, fmt.Errorf("%w: these bytes are no seal of a version known here", ErrSealBroken)
	}
	split := 2 + int(sealed[1])
	if len(sealed) < split+saltSize+nonceAndTag || !validKeyID(string(sealed[2:split])) {
		return "", nil, nil, fmt.Errorf("%w: it is cut short, or its head has changed", ErrSealBroken)
	}
	return string(sealed[2:split]), sealed[:split], sealed[split:], nil
}

// String lists the ids of the keys, which are no secret.
func (k Keyring) String() string { return "key ring of " + strings.Join(k.KeyIDs(), ", ") }

// GoString hides the keys from %#v.
func (k Keyring) GoString() string { return "signing.Keyring(" + hidden + ")" }

// LogValue hides the keys from slog.
func (k Keyring) LogValue() slog.Value { return slog.StringValue(k.String()) }
