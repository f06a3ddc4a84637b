// Package typeid writes and reads ids as callers see them: a prefix that names the kind, an underscore, and 26
// characters of base32 for a UUIDv7 (the TypeID format, version 0.3). Inside the gateway an id is a uuid.UUID.
package typeid

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"go.jetify.com/typeid"
)

// Prefix names what an id is of.
type Prefix string

// The kinds of things that have an id outside.
const (
	Tenant   Prefix = "ten"
	Token    Prefix = "tok"
	Endpoint Prefix = "ep"
	Event    Prefix = "evt"
	Delivery Prefix = "dlv"
	Attempt  Prefix = "att"
	Replay   Prefix = "rpl"
	Alert    Prefix = "alr"
	Audit    Prefix = "aud"
)

// ErrMalformed says that a text is no id of the kind that was asked for.
var ErrMalformed = errors.New("malformed id")

// Format writes an id: evt_01kd….
func Format(p Prefix, id uuid.UUID) string {
	tid, err := typeid.FromUUIDBytesWithPrefix(string(p), id[:])
	if err != nil { // the prefixes above are all valid, and any 16 bytes are
		panic(fmt.Sprintf("typeid: %v", err))
	}
	return tid.String()
}

// Parse reads an id of one kind. It accepts only what Format writes: another prefix, upper case or a
// character too many is ErrMalformed.
func Parse(p Prefix, text string) (uuid.UUID, error) {
	suffix, ok := strings.CutPrefix(text, string(p)+"_")
	if !ok || len(suffix) != 26 {
		return uuid.Nil, fmt.Errorf("%w: want %s_ and 26 characters", ErrMalformed, p)
	}
	tid, err := typeid.From(string(p), suffix)
	if err != nil {
		return uuid.Nil, fmt.Errorf("%w: want %s_ and 26 characters of 0-9 and a-z", ErrMalformed, p)
	}
	return uuid.UUID(tid.UUIDBytes()), nil
}
