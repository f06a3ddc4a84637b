package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"github.com/sallyport-dev/sallyport/internal/delivery"
)

// A cursor is the place where a page of a list ends, and a mark of the list and its filters, so that it isn't used for
// another one: base64url of a version, 8 bytes of a hash, and the place. It is no secret and guards nothing: whoever
// makes one up gets another page of what they may read anyway.
const (
	cursorVersion = 1
	cursorMark    = 8
	defaultPage   = 50
	maxPage       = 200
)

// page is what a request says about the page that it wants.
type page struct {
	limit int
	place []byte // where the page before ended; nil: the first page
	mark  [cursorMark]byte
}

// page reads limit and cursor. size is how many bytes a place of this list has.
func (c *call) page(size int, limit *Limit, cursor *Cursor) (page, error) {
	p := page{limit: defaultPage, mark: c.cursorMark()}
	if limit != nil {
		p.limit = *limit
	}
	if cursor == nil {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(*cursor)
	if err != nil || len(raw) != 1+cursorMark+size || raw[0] != cursorVersion || [cursorMark]byte(raw[1:]) != p.mark {
		return page{}, refuse(codeCursorMismatch, "The cursor is not one of this list with these filters.")
	}
	p.place = raw[1+cursorMark:]
	return p, nil
}

// cursorMark is a hash of the list: its path, its tenant, its filters.
func (c *call) cursorMark() (mark [cursorMark]byte) {
	filters := make(url.Values, len(c.query))
	for name, values := range c.query {
		if name != "cursor" && name != "limit" {
			filters[name] = values
		}
	}
	h := sha256.New()
	h.Write(c.caller.Tenant[:])
	for _, part := range [2]string{c.x.Request().URL.Path, filters.Encode()} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write([]byte(part))
	}
	copy(mark[:], h.Sum(nil))
	return mark
}

// next is the cursor of the page after this one, or null.
func (p page) next(more bool, place []byte) nullable.Nullable[string] {
	if !more {
		return nullable.NewNullNullable[string]()
	}
	raw := append([]byte{cursorVersion}, p.mark[:]...)
	return nullable.NewNullableWithValue(base64.RawURLEncoding.EncodeToString(append(raw, place...)))
}

// after is the place of lists that are ordered by an id.
func (p page) after() uuid.UUID {
	if p.place == nil {
		return uuid.Nil
	}
	return uuid.UUID(p.place)
}

// afterKey is the place of lists of deliveries.
func (p page) afterKey() *delivery.Key {
	if p.place == nil {
		return nil
	}
	return &delivery.Key{EventID: uuid.UUID(p.place[:16]), EndpointID: uuid.UUID(p.place[16:])}
}

// afterNumber is the place of lists of attempts.
func (p page) afterNumber() int {
	if p.place == nil {
		return 0
	}
	return int(binary.BigEndian.Uint32(p.place))
}

// listed is a page as the answer has it: what each element is outside, and where it ends.
func listed[D, M any](p page, elements []D, more bool, model func(D) M, place func(D) []byte) (data []M, next nullable.Nullable[string]) {
	data = make([]M, len(elements))
	for i, e := range elements {
		data[i] = model(e)
	}
	if more = more && len(elements) > 0; !more {
		return data, p.next(false, nil)
	}
	return data, p.next(true, place(elements[len(elements)-1]))
}
