package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// refusal is an error that knows its problem document: a code, and what is special this time.
type refusal struct {
	code          code
	detail        string
	hint          string // empty: that of its kind
	fields        []FieldError
	requiredScope string
	header        http.Header // to go with it, as ETag
}

func (r *refusal) Error() string {
	if r.detail == "" {
		return string(r.code)
	}
	return string(r.code) + ": " + r.detail
}

// refuse makes a refusal with a detail.
func refuse(c code, detail string, args ...any) *refusal {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	return &refusal{code: c, detail: detail}
}

// with adds a header to a refusal.
func (r *refusal) with(name, value string) *refusal {
	if r.header == nil {
		r.header = make(http.Header)
	}
	r.header.Set(name, value)
	return r
}

// refuseFields makes a refusal about fields or parameters; its detail is about the first of them.
func refuseFields(c code, fields []FieldError) *refusal {
	first := fields[0]
	where := "the body"
	switch {
	case first.Pointer != nil && *first.Pointer != "":
		where = *first.Pointer
	case first.Parameter != nil:
		where = *first.Parameter
	}
	detail := where + ": " + first.Detail
	if more := len(fields) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more)", more)
	}
	return &refusal{code: c, detail: detail, fields: fields}
}

// fieldError is about a place in the body.
func fieldError(pointer, code, detail string) FieldError {
	return FieldError{Pointer: &pointer, Code: code, Detail: detail}
}

// parameterError is about a query parameter or a header.
func parameterError(name, code, detail string) FieldError {
	return FieldError{Parameter: &name, Code: code, Detail: detail}
}

// The codes of errors in fields.
const (
	fieldRequired  = "required"
	fieldUnknown   = "unknown_field"
	fieldDuplicate = "duplicate_field"
	fieldType      = "type"
	fieldFormat    = "format"
	fieldTooShort  = "too_short"
	fieldTooLong   = "too_long"
	fieldTooDeep   = "too_deep"
	fieldRange     = "range"
	fieldValue     = "value"
)

// document writes a refusal as a problem document for one request.
func (r *refusal) document(requestID string) Problem {
	k, known := kindOf(r.code)
	if !known { // a code of another package that the table lacks; a test holds that there is none
		k, _ = kindOf(codeInternal)
	}
	p := Problem{
		Type:      "/problems/" + string(k.Code),
		Title:     k.Title,
		Status:    k.Status,
		Instance:  "urn:sallyport:request:" + requestID,
		Code:      string(k.Code),
		RequestID: requestID,
		Hint:      &k.Hint,
	}
	if r.hint != "" {
		p.Hint = &r.hint
	}
	if r.detail != "" {
		p.Detail = &r.detail
	}
	if r.requiredScope != "" {
		p.RequiredScope = &r.requiredScope
	}
	if len(r.fields) > 0 {
		p.Errors = &r.fields
	}
	return p
}

// writeProblem answers with a problem document.
func writeProblem(w http.ResponseWriter, r *refusal, requestID string) error {
	p := r.document(requestID)
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write a problem document: %w", err)
	}
	h := w.Header()
	for name, values := range r.header {
		h[name] = values
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, err = w.Write(body)
	return err
}

// quotedMax is how much of a text of the caller's an error repeats, in bytes.
const quotedMax = 64

// quoted is a text of the caller's, cut so that an error stays short.
func quoted(text string) string { return strconv.Quote(cut(text)) }

func cut(text string) string {
	if len(text) <= quotedMax {
		return text
	}
	end := quotedMax
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// pointerToken writes a key for a JSON pointer (RFC 6901, 3), cut so that an error stays short.
func pointerToken(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(cut(key))
}
