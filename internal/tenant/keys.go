package tenant

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

const (
	// purposeKey is what the private keys are sealed for.
	purposeKey = "auth_key"
	// maxAge is how old a thing that is known of tokens, tenants and keys may be.
	maxAge = 30 * time.Second
	// unknownKeyPause is how often an unknown key id may cause a read: anybody can send one.
	unknownKeyPause = time.Second
)

// EnsureKey makes the first signing key, if there is none, and checks that the key ring opens the one there is.
// Processes may call it at once: one of them makes the key.
func (a *Authority) EnsureKey(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtext('gateway.auth_keys'))`); err != nil {
			return err
		}
		_, _, err := signingKeyTx(ctx, tx, a.cfg.Keyring)
		if !errors.Is(err, errNoKey) {
			return err
		}
		return makeKeyTx(ctx, tx, a.cfg.Keyring)
	})
	if err != nil {
		return fmt.Errorf("ensure a key for tokens: %w", err)
	}
	return nil
}

var errNoKey = errors.New("there is no signing key yet: EnsureKey makes it")

func makeKeyTx(ctx context.Context, tx pgx.Tx, ring *signing.Keyring) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	kid, owner := nameKey(public)
	sealed, err := ring.Seal(private.Seed(), purposeKey, owner)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		insert into gateway.auth_keys (kid, algorithm, public_key, private_key, state, signing_at)
		values ($1, 'EdDSA', $2, $3, 'signing', now())`, kid, []byte(public), sealed)
	if err != nil {
		return fmt.Errorf("store a key: %w", err)
	}
	return notifyTx(ctx, tx, "key "+kid)
}

// signingKeyTx reads the key that signs.
func signingKeyTx(ctx context.Context, tx pgx.Tx, ring *signing.Keyring) (string, ed25519.PrivateKey, error) {
	var kid string
	var public, sealed []byte
	err := tx.QueryRow(ctx, `select kid, public_key, private_key from gateway.auth_keys where state = 'signing'`).Scan(&kid, &public, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil, errNoKey
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the signing key: %w", err)
	}
	_, owner := nameKey(public)
	seed, err := ring.Open(sealed, purposeKey, owner)
	if err != nil {
		return "", nil, fmt.Errorf("open the signing key %s: %w", kid, err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	if !bytes.Equal(private.Public().(ed25519.PublicKey), public) {
		return "", nil, fmt.Errorf("the signing key %s: %w: the halves do not fit", kid, signing.ErrSealBroken)
	}
	return kid, private, nil
}

// nameKey derives a key's id from its public half, and what its private half is sealed to: another key's row does not
// open it.
func nameKey(public ed25519.PublicKey) (kid string, owner uuid.UUID) {
	sum := sha256.Sum256(public)
	owner = uuid.UUID(sum[:16])
	return base64.RawURLEncoding.EncodeToString(owner[:]), owner
}

// keys is the public keys, read again when they are older than maxAge.
type keys struct {
	db  *pgxpool.Pool
	now func() time.Time

	mu         sync.Mutex
	set        *keySet
	generation int
}

type keySet struct {
	readAt time.Time
	list   []publicKey
}

type publicKey struct {
	kid string
	key ed25519.PublicKey
}

// find returns the key of an id: a *TokenError with ErrTokenUnknownKey, or the database's error.
func (k *keys) find(ctx context.Context, kid string) (ed25519.PublicKey, error) {
	k.mu.Lock()
	set := k.set
	k.mu.Unlock()
	if set != nil && k.now().Sub(set.readAt) <= maxAge {
		if key := set.find(kid); key != nil {
			return key, nil
		}
		if k.now().Sub(set.readAt) < unknownKeyPause {
			return nil, unknownKey()
		}
	}
	set, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	if key := set.find(kid); key != nil {
		return key, nil
	}
	return nil, unknownKey()
}

func unknownKey() *TokenError {
	return &TokenError{Reason: ErrTokenUnknownKey,
		Detail: "This gateway has no such key: the token is another gateway's, or its key was retired."}
}

func (s *keySet) find(kid string) ed25519.PublicKey {
	for _, k := range s.list {
		if k.kid == kid {
			return k.key
		}
	}
	return nil
}

func (k *keys) load(ctx context.Context) (*keySet, error) {
	k.mu.Lock()
	generation := k.generation
	k.mu.Unlock()
	set := &keySet{readAt: k.now()}
	rows, _ := k.db.Query(ctx, `
		select kid, public_key from gateway.auth_keys
		where state <> 'retired' and (retires_at is null or retires_at > now())
		order by created_at, kid`)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (publicKey, error) {
		var key publicKey
		var public []byte
		err := row.Scan(&key.kid, &public)
		key.key = ed25519.PublicKey(public)
		return key, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of tokens: %w", err)
	}
	set.list = list
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.generation == generation { // else they changed while they were read
		k.set = set
	}
	return set, nil
}

func (k *keys) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = nil
	k.generation++
}

// JWKS writes the public keys down as a JSON Web Key Set (RFC 7517, RFC 8037), the oldest first.
func (a *Authority) JWKS(ctx context.Context) ([]byte, error) {
	set, err := a.keys.load(ctx)
	if err != nil {
		return nil, err
	}
	type jwk struct {
		Type      string `json:"kty"`
		Curve     string `json:"crv"`
		Use       string `json:"use"`
		Algorithm string `json:"alg"`
		ID        string `json:"kid"`
		X         string `json:"x"`
	}
	list := make([]jwk, len(set.list))
	for i, k := range set.list {
		list[i] = jwk{"OKP", "Ed25519", "sig", "EdDSA", k.kid, base64.RawURLEncoding.EncodeToString(k.key)}
	}
	return json.Marshal(map[string]any{"keys": list})
}
