package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

const postEventsID = "postEvents"

// Limits of a batch.
const (
	maxBatchRequest = 1 << 20 // bytes
	maxBatchEvents  = 100
)

// postEvents takes several events at once, in one transaction. It is written out by hand, as postEvent is.
func (c *call) postEvents() error {
	body, err := readBody(c.x)
	if err != nil {
		return err
	}
	atomic, err := c.flag("atomic")
	if err != nil {
		return err
	}
	items, err := readBatch(body)
	if err != nil {
		return err
	}
	b := &postedBatch{atomic: atomic, events: make([]postedEvent, len(items)), refused: make([]*refusal, len(items))}
	for i, item := range items {
		if b.events[i], err = readEvent(item); err != nil {
			b.refused[i] = refusalOf(err)
		}
	}
	if err := c.once(repeats{wait: c.cfg.KeyWait}, body, func(c *call) error { return c.storeBatch(b) }); err != nil {
		return err
	}
	c.cfg.Outbox.Poke()
	return nil
}

// postedBatch is what was read of a batch: each item is an event or was refused.
type postedBatch struct {
	atomic  bool
	events  []postedEvent
	refused []*refusal
}

// storeBatch stores the good ones and answers for each; an atomic batch with a bad one stores none. It leaves b as it is:
// it may be called again.
func (c *call) storeBatch(b *postedBatch) error {
	refused := slices.Clone(b.refused)
	if b.atomic {
		if err := wholeBatch(refused); err != nil {
			return err
		}
	}
	var posts []outbox.Post
	var at []int // which item each is
	for i := range b.events {
		if refused[i] == nil {
			posts, at = append(posts, c.postOf(b.events[i])), append(at, i)
		}
	}
	results := make([]BatchResult, len(b.events))
	if len(posts) > 0 {
		outcomes, err := c.cfg.Outbox.AcceptTx(c.x.Request().Context(), c.tx, posts)
		if err != nil {
			return fmt.Errorf("accept a batch: %w", err)
		}
		for k, o := range outcomes {
			if o.Err != nil {
				refused[at[k]] = refusalOf(o.Err)
				continue
			}
			receipt := receiptOf(b.events[at[k]].UID, o.Receipt)
			results[at[k]].Receipt = &receipt
		}
	}
	if b.atomic {
		if err := wholeBatch(refused); err != nil {
			return err
		}
	}
	for i, r := range refused {
		if r != nil {
			p := r.document(c.x.requestID)
			p.Errors = below(i, p.Errors)
			results[i].Problem = &p
		}
	}
	return writeJSON(c.x.Response(), http.StatusAccepted, BatchResults{Results: results})
}

// wholeBatch refuses an atomic batch for what is wrong with its items, and names them: for what cannot be used if there is
// such an item, else for uids that are taken.
func wholeBatch(refused []*refusal) error {
	var wrong, taken []FieldError
	for i, r := range refused {
		switch {
		case r == nil:
		case r.code == codeEventUIDConflict:
			taken = append(taken, fieldError(itemPointer(i)+"/uid", string(r.code), r.detail))
		case len(r.fields) == 0:
			wrong = append(wrong, fieldError(itemPointer(i), string(r.code), r.detail))
		default:
			wrong = append(wrong, *below(i, &r.fields)...)
		}
	}
	switch {
	case len(wrong) > 0:
		return refuseFields(codeValidationFailed, wrong[:min(len(wrong), maxFieldErrors)])
	case len(taken) > 0:
		return refuseFields(codeEventUIDConflict, taken[:min(len(taken), maxFieldErrors)])
	}
	return nil
}

// below moves errors of one item to where the item is in the batch.
func below(i int, fields *[]FieldError) *[]FieldError {
	if fields == nil {
		return nil
	}
	moved := make([]FieldError, len(*fields))
	for k, e := range *fields {
		if e.Pointer != nil {
			pointer := itemPointer(i) + *e.Pointer
			e.Pointer = &pointer
		}
		moved[k] = e
	}
	return &moved
}

func itemPointer(i int) string { return "/events/" + strconv.Itoa(i) }

// readBatch finds the bytes of each event in {"events":[…]}. What is wrong with an event is found later, event by event;
// text that is no JSON makes nothing of the batch.
func readBatch(body []byte) ([][]byte, error) {
	if at := invalidUTF8(body); at < len(body) {
		return nil, refuse(codeMalformedJSON, "The body is not UTF-8: byte %d belongs to no character.", at)
	}
	s := scanner{text: body}
	if len(body) == 0 {
		return nil, refuseText(s.fail("the body is empty"), "")
	}
	if s.space() != '{' {
		if err := s.value(0, nil); err != nil {
			return nil, refuseText(err, "")
		}
		return nil, refuseFields(codeValidationFailed, []FieldError{fieldError("", fieldType, "It must be an object with events.")})
	}
	var items [][]byte
	var wrong []FieldError
	seen := false
	more, err := s.firstKey()
	for more && err == nil {
		raw, escaped, kerr := s.memberKey()
		if kerr != nil {
			return nil, refuseText(kerr, "")
		}
		key, _ := unquote(raw, escaped)
		s.space()
		switch {
		case key != "events":
			wrong = append(wrong, fieldError("/"+pointerToken(key), fieldUnknown, "It is not a field of a batch."))
			err = s.value(0, nil)
		case seen:
			wrong = append(wrong, fieldError("/events", fieldDuplicate, "It is there twice."))
			err = s.value(0, nil)
		default:
			seen = true
			items, err = s.items(&wrong)
		}
		if err == nil {
			more, err = s.nextKey()
		}
		if len(wrong) >= maxFieldErrors {
			break
		}
	}
	if err == nil && len(wrong) < maxFieldErrors {
		err = s.end()
	}
	switch {
	case err != nil:
		return nil, refuseText(err, "/events")
	case len(wrong) > 0:
		return nil, refuseFields(codeValidationFailed, wrong)
	case !seen:
		return nil, refuseFields(codeValidationFailed, []FieldError{fieldError("/events", fieldRequired, "It must be there.")})
	}
	return items, nil
}

// items finds the elements of the list that is next.
func (s *scanner) items(wrong *[]FieldError) (items [][]byte, err error) {
	if s.space() != '[' {
		*wrong = append(*wrong, fieldError("/events", fieldType, "It must be a list of events."))
		return nil, s.value(0, nil)
	}
	s.at++ // [
	if s.space() == ']' {
		s.at++
		*wrong = append(*wrong, fieldError("/events", fieldTooShort, "It has no events."))
		return nil, nil
	}
	for n := 1; ; n++ {
		s.space()
		begin := s.at
		// The nesting of data counts from its own first level, as in a single post: an event's object is one above.
		err := s.value(-1, nil)
		if _, deep := errors.AsType[*nestingError](err); deep {
			s.at = begin
			err = s.skip() // the reader of the event tells of it, and of it alone
		}
		switch {
		case err != nil:
			return nil, err
		case n <= maxBatchEvents:
			items = append(items, s.text[begin:s.at:s.at])
		case n == maxBatchEvents+1:
			*wrong = append(*wrong, fieldError("/events", fieldTooLong, "It has more than 100 events."))
		}
		switch s.space() {
		case ',':
			s.at++
		case ']':
			s.at++
			return items, nil
		default:
			return nil, s.expected("a comma or ]")
		}
	}
}

// skip steps over an array or object that is nested too deeply to be read, by its brackets and strings alone.
func (s *scanner) skip() error {
	for open := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			if _, _, err := s.str(); err != nil {
				return err
			}
			continue
		case '[', '{':
			open++
		case ']', '}':
			open--
		}
		if s.at++; open == 0 {
			return nil
		}
	}
	return s.expected("the end of an event")
}

// receiptOf is the receipt of one event.
func receiptOf(uid *string, r outbox.Receipt) Receipt {
	id := typeid.Format(typeid.Event, r.ID)
	m := Receipt{ID: id, UID: uid, State: EventState(r.State), Duplicate: r.Duplicate, AcceptedAt: stamp(r.AcceptedAt)}
	m.Links.Self = "/v1/events/" + id
	m.Links.Deliveries = "/v1/deliveries?event_id=" + id
	return m
}

// flag reads a query parameter that is true or false.
func (c *call) flag(name string) (bool, error) {
	switch text := c.query.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, refuseFields(codeParameterInvalid, []FieldError{parameterError(name, fieldValue, "It must be true or false.")})
	}
}

// MarshalJSON writes a result as the receipt or the problem that it is.
func (r BatchResult) MarshalJSON() ([]byte, error) {
	if r.Problem != nil {
		return json.Marshal(r.Problem)
	}
	return json.Marshal(r.Receipt)
}

// BatchResult is what became of one event of a batch.
type BatchResult struct {
	Receipt *Receipt
	Problem *Problem
}

// BatchResults are the results of a batch, in the order of its events.
type BatchResults struct {
	Results []BatchResult `json:"results"`
}
