package api

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
)

// Limits of a posted event.
const (
	maxEventRequest = 288 << 10 // bytes: the data and what is around it
	maxEventData    = 256 << 10 // bytes
	maxEventSubject = 256       // bytes
	maxEventType    = 128       // bytes
	maxEventScopes  = 10
	maxEventUID     = 128
	maxFieldErrors  = 20 // told of at once
)

// postedEvent is an event as it was posted: everything is valid, and Data is the very bytes that came, a part of the
// body.
type postedEvent struct {
	Type           string
	Subject        *string
	Scopes         []string
	PreviousScopes []string
	OccurredAt     *time.Time
	UID            *string
	Data           []byte
}

// readEvent reads the body of an event post. The error is a *refusal, and never the server's fault.
//
// The envelope is strict: an unknown key, one that is there twice and one in another case are refused, since readers
// differ in what they make of them, and the receiver's must see the event that the gateway's checks saw. The data is
// found, not decoded: numbers, escapes, white space and the order of keys stay.
func readEvent(body []byte) (postedEvent, error) {
	if !utf8.Valid(body) {
		return postedEvent{}, refuse(codeMalformedJSON, "The body is not UTF-8: byte %d belongs to no character.", invalidUTF8(body))
	}
	r := eventReader{scanner: scanner{text: body}}
	if err := r.read(); err != nil {
		return postedEvent{}, refuseText(err, "/"+pointerToken(string(r.key)))
	}
	if r.tooLarge {
		return postedEvent{}, refuse(codePayloadTooLarge, "The data is larger than %d bytes (%d KiB).", maxEventData, maxEventData>>10)
	}
	r.require()
	switch {
	case len(r.wrong) > 0:
		return postedEvent{}, refuseFields(codeValidationFailed, r.wrong)
	case endpoint.Reserved(r.event.Type):
		return postedEvent{}, refuseFields(codeTypeReserved, []FieldError{fieldError("/type", string(codeTypeReserved), "It begins with the gateway's own segment.")})
	}
	return r.event, nil
}

// refuseText turns an error of the scanner into a refusal; deep is where a value may be nested.
func refuseText(err error, deep string) *refusal {
	if nesting, ok := errors.AsType[*nestingError](err); ok {
		return refuseFields(codeValidationFailed, []FieldError{fieldError(deep, fieldTooDeep,
			fmt.Sprintf("It is nested deeper than %d levels, at byte %d.", maxNesting, nesting.offset))})
	}
	if syntax, ok := errors.AsType[*syntaxError](err); ok {
		return refuse(codeMalformedJSON, "At byte %d: %s.", syntax.offset, syntax.reason)
	}
	return refuse(codeMalformedJSON, "The body cannot be read.")
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// field is a key of the envelope, as a bit.
type field uint8

const (
	fieldOfType field = 1 << iota
	fieldOfSubject
	fieldOfScopes
	fieldOfPreviousScopes
	fieldOfOccurredAt
	fieldOfUID
	fieldOfData
)

// fieldOf is the field of a key, or 0.
func fieldOf(key []byte) field {
	switch string(key) {
	case "type":
		return fieldOfType
	case "subject":
		return fieldOfSubject
	case "scopes":
		return fieldOfScopes
	case "previous_scopes":
		return fieldOfPreviousScopes
	case "occurred_at":
		return fieldOfOccurredAt
	case "uid":
		return fieldOfUID
	case "data":
		return fieldOfData
	}
	return 0
}

// eventReader reads one body.
type eventReader struct {
	scanner
	event    postedEvent
	key      []byte // whose value is being read
	seen     field
	wrong    []FieldError
	tooLarge bool
}

func (r *eventReader) reject(pointer, code, detail string) {
	if len(r.wrong) < maxFieldErrors {
		r.wrong = append(r.wrong, fieldError(pointer, code, detail))
	}
}

// read scans the whole body. It returns an error only where the text is no JSON or too deep; what is wrong with
// fields is collected.
func (r *eventReader) read() error {
	if len(r.text) == 0 {
		return r.fail("the body is empty")
	}
	if r.space() != '{' {
		begin := r.at
		if err := r.value(0, nil); err != nil {
			return err
		}
		r.reject("", fieldType, "It must be an object, not "+kindOfValue(r.text[begin])+".")
		return r.end()
	}
	more, err := r.firstKey()
	for more && err == nil {
		var escaped bool
		if r.key, escaped, err = r.memberKey(); err != nil {
			return err
		}
		if escaped {
			text, _ := unquote(r.key, true)
			r.key = []byte(text)
		}
		r.space()
		if err = r.member(r.key); err != nil {
			return err
		}
		more, err = r.nextKey()
	}
	if err != nil {
		return err
	}
	return r.end()
}

// member reads the value of one key.
func (r *eventReader) member(key []byte) error {
	f := fieldOf(key)
	switch {
	case f == 0:
		r.reject("/"+pointerToken(string(key)), fieldUnknown, unknownField(key))
	case r.seen&f != 0:
		r.reject("/"+string(key), fieldDuplicate, "It is there twice.")
	default:
		r.seen |= f
		return r.known(f)
	}
	return r.value(0, nil)
}

// unknownField says what is wrong with a key, and what it may have been meant to be.
func unknownField(key []byte) string {
	if lower := bytes.ToLower(key); fieldOf(lower) != 0 {
		return "It is not a field of an event: keys are written in lower case, as " + string(lower) + "."
	}
	return "It is not a field of an event."
}

// known reads the value of a known key that was not there before.
func (r *eventReader) known(f field) error {
	switch f {
	case fieldOfData:
		return r.data()
	case fieldOfScopes:
		return r.scopes("/scopes", &r.event.Scopes)
	case fieldOfPreviousScopes:
		return r.scopes("/previous_scopes", &r.event.PreviousScopes)
	case fieldOfType:
		return r.string("/type", r.setType)
	case fieldOfSubject:
		return r.string("/subject", r.setSubject)
	case fieldOfUID:
		return r.string("/uid", r.setUID)
	default:
		return r.string("/occurred_at", r.setOccurredAt)
	}
}

// data finds the bytes of the data.
func (r *eventReader) data() error {
	begin := r.at
	if err := r.value(0, nil); err != nil {
		return err
	}
	r.event.Data = r.text[begin:r.at:r.at]
	r.tooLarge = len(r.event.Data) > maxEventData
	return nil
}

// string reads a value that must be a string, and hands it on if it is one.
func (r *eventReader) string(pointer string, set func(pointer, text string)) error {
	if r.space() != '"' {
		return r.other(pointer, "a string")
	}
	raw, escaped, err := r.str()
	if err != nil {
		return err
	}
	text, whole := unquote(raw, escaped)
	if !whole {
		r.reject(pointer, fieldFormat, "It holds half of a surrogate pair, which is no character.")
		return nil
	}
	set(pointer, text)
	return nil
}

// other skips a value that is not what it should be, and tells.
func (r *eventReader) other(pointer, should string) error {
	begin := r.at
	if err := r.value(0, nil); err != nil {
		return err
	}
	r.reject(pointer, fieldType, "It must be "+should+", not "+kindOfValue(r.text[begin])+".")
	return nil
}

// scopes reads a list of scopes.
func (r *eventReader) scopes(pointer string, into *[]string) error {
	if r.space() != '[' {
		return r.other(pointer, "a list of strings")
	}
	r.at++ // [
	if r.space() == ']' {
		r.at++
		return nil
	}
	add := func(pointer, text string) {
		*into = append(*into, text)
		r.check(pointer, text, endpoint.ValidScope)
	}
	for i := 0; ; i++ {
		var err error
		switch {
		case i < maxEventScopes:
			err = r.string(pointer+"/"+strconv.Itoa(i), add)
		case i == maxEventScopes:
			r.reject(pointer, fieldTooLong, "It has more than 10 scopes.")
			fallthrough
		default:
			err = r.value(1, nil)
		}
		if err != nil {
			return err
		}
		switch r.space() {
		case ',':
			r.at++
		case ']':
			r.at++
			return nil
		default:
			return r.expected("a comma or ]")
		}
	}
}

// require tells of the fields that must be there and are not.
func (r *eventReader) require() {
	if len(r.wrong) > 0 && *r.wrong[0].Pointer == "" {
		return // there are no fields at all
	}
	if r.seen&fieldOfType == 0 {
		r.reject("/type", fieldRequired, "It must be there.")
	}
	if r.seen&fieldOfData == 0 {
		r.reject("/data", fieldRequired, "It must be there; it may be null.")
	}
}

func (r *eventReader) setType(pointer, text string) {
	r.event.Type = text
	r.check(pointer, text, endpoint.ValidType)
}

func (r *eventReader) setSubject(pointer, text string) {
	r.event.Subject = &text
	switch {
	case text == "":
		r.reject(pointer, fieldTooShort, "It is empty; leave it out instead.")
	case len(text) > maxEventSubject:
		r.reject(pointer, fieldTooLong, "It is longer than 256 bytes.")
	case strings.ContainsFunc(text, unicode.IsControl):
		r.reject(pointer, fieldFormat, "It holds a control character.")
	}
}

func (r *eventReader) setUID(pointer, text string) {
	r.event.UID = &text
	if !validUID(text) {
		r.reject(pointer, fieldFormat, "It must be 1 to 128 of A-Z, a-z, 0-9, _ and -.")
	}
}

func (r *eventReader) setOccurredAt(pointer, text string) {
	at, ok := parseTime(text)
	if !ok {
		r.reject(pointer, fieldFormat, timeFault)
		return
	}
	r.event.OccurredAt = &at
}

// check checks a type or a scope.
func (r *eventReader) check(pointer, text string, valid func(string) error) {
	err := valid(text)
	if err == nil {
		return
	}
	detail := "It is not valid."
	if g, ok := errors.AsType[*endpoint.GlobError](err); ok {
		detail = nameFault(g)
	}
	r.reject(pointer, fieldFormat, detail)
}

// nameFault words what is wrong with a type, a scope or a glob.
func nameFault(g *endpoint.GlobError) string {
	return "It is not valid at byte " + strconv.Itoa(g.Offset) + ": " + g.Reason + "."
}

// validUID says whether a text can be a caller's own name for a thing.
func validUID(text string) bool {
	if text == "" || len(text) > maxEventUID {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// timeFault says how a time must look.
const timeFault = "It must be a time as RFC 3339 says, with an offset, as 2026-07-01T12:00:00.5+02:00 or 2026-07-01T10:00:00Z, from the year 1 to 9999."

// parseTime reads a time as RFC 3339 has it, strictly, and cuts it to the microseconds that are kept.
func parseTime(text string) (time.Time, bool) {
	var at time.Time
	// The package time lets a comma stand before the fraction, and an hour of one digit.
	if at.UnmarshalText([]byte(text)) != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return time.Time{}, false
	}
	at = at.UTC().Truncate(time.Microsecond)
	return at, at.Year() >= 1 && at.Year() <= 9999
}

// kindOfValue names the kind of a JSON value by its first byte.
func kindOfValue(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
