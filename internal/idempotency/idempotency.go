package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 255

// purpose ties a sealed answer to what it is.
const purpose = "idempotency answer"

var (
	// ErrReused says that the key was used for a request with other content.
	ErrReused = errors.New("the idempotency key was used for another request")
	// ErrInProgress says that the first request under the key has not ended.
	ErrInProgress = errors.New("a request with this idempotency key is in progress")
)

// Tx is the transaction that a request is carried out in.
type Tx = pgx.Tx

// Request is a request under a key.
type Request struct {
	Tenant      uuid.UUID // nil: an operator's
	Key         string    // empty: none; the request is then only carried out in a transaction
	Fingerprint [sha256.Size]byte
	// Wait is how long a repeat waits for the first request to end; 0: not at all.
	Wait time.Duration
}

// Fingerprint tells requests apart by what they ask for, and by who asks where the answer is for nobody else, as one that
// shows a secret; by is nil where everyone of the tenant may have it.
func Fingerprint(method, path string, body []byte, by uuid.UUID) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body, by[:]} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Answer is what is answered to a request that succeeded.
type Answer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body"`
}

// Keys carries requests out.
type Keys struct {
	db   *pgxpool.Pool
	ring *signing.Keyring
	life time.Duration
}

// New returns keys that live for a time; 24 h where it is 0.
func New(db *pgxpool.Pool, ring *signing.Keyring, life time.Duration) *Keys {
	if life == 0 {
		life = 24 * time.Hour
	}
	return &Keys{db: db, ring: ring, life: life}
}

// tries is how often a request is begun that ends in a deadlock or a serialization failure: Postgres has then rolled it
// back, whole, to let another one go on.
const tries = 3

// Do carries a request out in one transaction with its key, or returns the answer that is stored under it, and says
// which. An error of do, ErrReused and ErrInProgress leave nothing behind. do may be called again, in another
// transaction, after one that was rolled back: what it does must be done through tx alone, on no other connection.
func (k *Keys) Do(ctx context.Context, r Request, do func(ctx context.Context, tx Tx) (Answer, error)) (Answer, bool, error) {
	for try := 1; ; try++ {
		answer, replayed, err := k.once(ctx, r, do)
		if err == nil {
			return answer, replayed, nil
		}
		if try == tries || !rolledBack(err) || ctx.Err() != nil {
			return Answer{}, false, err
		}
	}
}

// rolledBack says whether an error was about other transactions and not about this one.
func rolledBack(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001") // deadlock_detected, serialization_failure
}

func (k *Keys) once(ctx context.Context, r Request, do func(ctx context.Context, tx Tx) (Answer, error)) (answer Answer, replayed bool, err error) {
	err = pgx.BeginFunc(ctx, k.db, func(tx pgx.Tx) error {
		if r.Key != "" {
			if err := lockTx(ctx, tx, r); err != nil {
				return err
			}
			if answer, replayed, err = k.storedTx(ctx, tx, r); err != nil || replayed {
				return err
			}
		}
		if answer, err = do(ctx, tx); err != nil {
			return err
		}
		if answer.Status < 200 || answer.Status > 299 {
			return fmt.Errorf("the answer %d is no success, and came without an error", answer.Status)
		}
		if r.Key == "" {
			return nil
		}
		return k.storeTx(ctx, tx, r, answer)
	})
	return answer, replayed, err
}

// lockTx holds the key until the transaction ends.
func lockTx(ctx context.Context, tx pgx.Tx, r Request) error {
	sum := sha256.Sum256(append(r.Tenant[:], r.Key...))
	id := int64(binary.BigEndian.Uint64(sum[:]))
	if r.Wait == 0 {
		var held bool
		if err := tx.QueryRow(ctx, `select pg_try_advisory_xact_lock($1)`, id).Scan(&held); err != nil {
			return fmt.Errorf("lock an idempotency key: %w", err)
		}
		if !held {
			return ErrInProgress
		}
		return nil
	}
	var b pgx.Batch
	b.Queue(`select set_config('lock_timeout', $1, true)`, strconv.FormatInt(r.Wait.Milliseconds(), 10))
	b.Queue(`select pg_advisory_xact_lock($1)`, id)
	err := tx.SendBatch(ctx, &b).Close()
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "55P03": // lock_not_available
		return ErrInProgress
	case err != nil:
		return fmt.Errorf("lock an idempotency key: %w", err)
	}
	return nil
}

// storedTx reads the answer that is stored under the key. It is a statement after the lock, so it sees what the holder
// before has committed.
func (k *Keys) storedTx(ctx context.Context, tx pgx.Tx, r Request) (Answer, bool, error) {
	var same bool
	var sealed []byte
	err := tx.QueryRow(ctx, `
		select fingerprint = $3, response from gateway.idempotency_keys
		where tenant_id = $1 and key = $2 and expires_at > now()`, r.Tenant, r.Key, r.Fingerprint[:]).Scan(&same, &sealed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Answer{}, false, nil
	case err != nil:
		return Answer{}, false, fmt.Errorf("read an idempotency key: %w", err)
	case !same:
		return Answer{}, false, ErrReused
	}
	plain, err := k.ring.Open(sealed, purpose, r.Tenant)
	if err != nil {
		return Answer{}, false, fmt.Errorf("open a stored answer: %w", err)
	}
	var a Answer
	if err := json.Unmarshal(plain, &a); err != nil {
		return Answer{}, false, fmt.Errorf("read a stored answer: %w", err)
	}
	return a, true, nil
}

// storeTx stores an answer, in the place of one that has expired.
func (k *Keys) storeTx(ctx context.Context, tx pgx.Tx, r Request, a Answer) error {
	plain, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write an answer down: %w", err)
	}
	sealed, err := k.ring.Seal(plain, purpose, r.Tenant)
	if err != nil {
		return fmt.Errorf("seal an answer: %w", err)
	}
	_, err = tx.Exec(ctx, `
		insert into gateway.idempotency_keys (tenant_id, key, fingerprint, status, response, expires_at)
		values ($1, $2, $3, $4, $5, now() + $6::interval)
		on conflict (tenant_id, key) do update
		set fingerprint = excluded.fingerprint, status = excluded.status, response = excluded.response,
			created_at = now(), expires_at = excluded.expires_at`, r.Tenant, r.Key, r.Fingerprint[:], a.Status, sealed, k.life)
	if err != nil {
		return fmt.Errorf("store an idempotency key: %w", err)
	}
	return nil
}

// expireBatch is how many keys one statement deletes.
const expireBatch = 5000

// Expire deletes the keys whose life has ended, and says how many. A row that is locked is being used again: it is left
// alone, and one that was replaced meanwhile is looked at anew when it is locked, so that no answer of now is lost.
func (k *Keys) Expire(ctx context.Context) (int64, error) {
	var total int64
	for {
		tag, err := k.db.Exec(ctx, `
			delete from gateway.idempotency_keys where (tenant_id, key) in (
				select tenant_id, key from gateway.idempotency_keys where expires_at <= now() limit $1
				for update skip locked)`, expireBatch)
		if err != nil {
			return total, fmt.Errorf("delete expired idempotency keys: %w", err)
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < expireBatch {
			return total, nil
		}
	}
}
