package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/labstack/echo/v4"
)

// maxRequest is how large the body of a request may be, but for the post of an event: an endpoint with everything that
// it may have takes 130 KB.
const maxRequest = 256 << 10

// readQuery reads the query and refuses what the operation doesn't know, and what is there twice for no reason.
func readQuery(x *exchange) (url.Values, error) {
	values, err := url.ParseQuery(x.Request().URL.RawQuery)
	if err != nil {
		return nil, refuse(codeParameterInvalid, "The query of the URL cannot be read: a %% must be followed by two hexadecimal digits, and parameters are separated by &.")
	}
	var unknown, wrong []FieldError
	for name, list := range values {
		many, known := x.op.query[name]
		switch {
		case !known:
			unknown = append(unknown, parameterError(cut(name), string(codeUnknownParameter), "It is not a parameter of this operation."))
		case len(list) > 1 && !many:
			wrong = append(wrong, parameterError(name, fieldDuplicate, "It is there twice, and takes one value."))
		case slices.ContainsFunc(list, func(v string) bool { return !utf8.ValidString(v) || strings.ContainsRune(v, 0) }):
			wrong = append(wrong, parameterError(name, fieldFormat, "It is not UTF-8, or holds a NUL."))
		}
	}
	switch {
	case len(unknown) > 0:
		return nil, refuseFields(codeUnknownParameter, sorted(unknown))
	case len(wrong) > 0:
		return nil, refuseFields(codeParameterInvalid, sorted(wrong))
	}
	return values, nil
}

// sorted orders errors by what they are about, once each, and keeps a bounded number of them.
func sorted(fields []FieldError) []FieldError {
	slices.SortStableFunc(fields, func(a, b FieldError) int { return strings.Compare(whereOf(a), whereOf(b)) })
	fields = slices.CompactFunc(fields, func(a, b FieldError) bool { return whereOf(a) == whereOf(b) && a.Code == b.Code })
	return fields[:min(len(fields), maxFieldErrors)]
}

func whereOf(f FieldError) string {
	switch {
	case f.Pointer != nil:
		return *f.Pointer
	case f.Parameter != nil:
		return *f.Parameter
	}
	return ""
}

// readBody reads the body of a request whole, within the operation's limit.
func readBody(x *exchange) ([]byte, error) {
	r := x.Request()
	if err := checkMediaType(r.Header); err != nil {
		return nil, err
	}
	limit := x.op.maxBody
	tooLarge := refuse(codePayloadTooLarge, "The request is larger than %d bytes (%d KiB).", limit, limit>>10)
	if r.ContentLength > limit {
		// What is not read must not be taken for the next request.
		return nil, tooLarge.with("Connection", "close")
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := body.ReadFrom(http.MaxBytesReader(x.Response(), r.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge.with("Connection", "close")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyCut, err)
	}
	return body.Bytes(), nil
}

// errBodyCut says that the client did not send the body that it announced.
var errBodyCut = errors.New("read the body")

// checkMediaType refuses a body that isn't said to be plain JSON in UTF-8.
func checkMediaType(h http.Header) error {
	given := h.Values("Content-Type")
	if len(given) == 0 {
		return refuse(codeUnsupportedMediaType, "The request has no Content-Type.")
	}
	kind, parameters, err := mime.ParseMediaType(given[0])
	charset, hasCharset := parameters["charset"]
	switch {
	case err != nil, len(given) > 1, kind != "application/json":
		return refuse(codeUnsupportedMediaType, "The Content-Type is %s.", quoted(strings.Join(given, ", ")))
	case len(parameters) > 1, len(parameters) == 1 && !hasCharset, hasCharset && !strings.EqualFold(charset, "utf-8"):
		return refuse(codeUnsupportedMediaType, "The Content-Type has a parameter other than charset=utf-8.")
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return refuse(codeUnsupportedMediaType, "The Content-Encoding is %s.", quoted(encoding))
	}
	return nil
}

// checkText refuses a body that readers could read differently: no JSON, no UTF-8, keys that are there twice.
func checkText(body []byte) error {
	if !utf8.Valid(body) {
		return refuse(codeMalformedJSON, "The body is not UTF-8: byte %d belongs to no character.", invalidUTF8(body))
	}
	s := scanner{text: body}
	if len(body) == 0 {
		return refuseText(s.fail("the body is empty"), "")
	}
	var repeated []string
	err := s.value(0, &place{repeated: &repeated})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return refuseText(err, "")
	}
	if len(repeated) == 0 {
		return nil
	}
	fields := make([]FieldError, 0, len(repeated))
	for _, pointer := range repeated[:min(len(repeated), maxFieldErrors)] {
		fields = append(fields, fieldError(pointer, fieldDuplicate, "It is there twice."))
	}
	return refuseFields(codeValidationFailed, fields)
}

// validate holds a request to the contract: its parameters, and its body if it has one.
func (s *Server) validate(x *exchange, body []byte) error {
	r := x.Request()
	if x.op.hasBody {
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
	}
	params := make(map[string]string)
	for _, name := range x.ParamNames() {
		value, err := url.PathUnescape(x.Param(name))
		if err != nil || !utf8.ValidString(value) {
			return notFound()
		}
		params[name] = value
	}
	err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, QueryParams: x.QueryParams(), Route: x.op.route,
		Options: &openapi3filter.Options{
			MultiError: true, SkipSettingDefaults: true, ExcludeRequestBody: !x.op.hasBody,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	})
	if err == nil {
		return nil
	}
	return contractRefusal(err)
}

// contractRefusal words what the validator found. Its own texts are not used: they are written for whoever knows the
// schema, and some repeat the value.
func contractRefusal(err error) error {
	var fields, parameters []FieldError
	strangers := make(map[string]bool) // objects whose unknown fields were told of
	unplaced := false
	eachError(err, nil, func(in *openapi3filter.RequestError, fault error) {
		schema, _ := fault.(*openapi3.SchemaError) //nolint:errorlint // eachError has unwrapped it
		switch {
		case in != nil && in.Parameter != nil:
			code, detail := fieldFormat, "It cannot be read."
			if schema != nil {
				code, detail = schemaFault(schema)
			}
			parameters = append(parameters, parameterError(in.Parameter.Name, code, detail))
		case schema != nil:
			at := pointerOf(schema.JSONPointer())
			if schema.SchemaField != "properties" {
				code, detail := schemaFault(schema)
				fields = append(fields, fieldError(at, code, detail))
			} else if !strangers[at] {
				strangers[at] = true
				fields = append(fields, unknownFields(at, schema)...)
			}
		default:
			unplaced = true
		}
	})
	switch {
	case len(parameters) > 0:
		return refuseFields(codeParameterInvalid, sorted(parameters))
	case len(fields) > 0:
		return refuseFields(codeValidationFailed, sorted(fields))
	case unplaced:
		return refuse(codeValidationFailed, "The request is not what the operation takes.")
	}
	return fmt.Errorf("validate a request: %w", err)
}

// eachError walks a tree of the validator's errors to its leaves.
func eachError(err error, in *openapi3filter.RequestError, leaf func(*openapi3filter.RequestError, error)) {
	switch e := err.(type) { //nolint:errorlint // walks the tree by itself
	case openapi3.MultiError:
		for _, one := range e {
			eachError(one, in, leaf)
		}
	case *openapi3filter.RequestError:
		if e.Err == nil {
			leaf(e, e)
			return
		}
		eachError(e.Err, e, leaf)
	default:
		leaf(in, err)
	}
}

// unknownFields tells of an object's fields that its schema lacks, where they are. The validator tells of them at the
// object, once for each.
func unknownFields(at string, e *openapi3.SchemaError) []FieldError {
	object, _ := e.Value.(map[string]any)
	var faults []FieldError
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if e.Schema.Properties[name] == nil && len(faults) < maxFieldErrors {
			faults = append(faults, fieldError(at+"/"+pointerToken(name), fieldUnknown, "It is not a field here."))
		}
	}
	return faults
}

func pointerOf(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(pointerToken(t))
	}
	return b.String()
}

// schemaFault words which rule of the contract a value breaks.
func schemaFault(e *openapi3.SchemaError) (code, detail string) {
	s := e.Schema
	switch e.SchemaField {
	case "required":
		return fieldRequired, "It must be there."
	case "type", "nullable":
		return fieldType, "It must be " + kindOfSchema(s) + "."
	case "enum":
		texts := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			texts[i] = fmt.Sprint(v)
		}
		return fieldValue, "It must be one of: " + strings.Join(texts, ", ") + "."
	case "pattern":
		return fieldFormat, "It must match " + s.Pattern + " ."
	case "minLength":
		return fieldTooShort, fmt.Sprintf("It must have at least %d characters.", s.MinLength)
	case "maxLength":
		return fieldTooLong, fmt.Sprintf("It must have at most %d characters.", *s.MaxLength)
	case "minItems":
		return fieldTooShort, fmt.Sprintf("It must have at least %d elements; leave it out for the default.", s.MinItems)
	case "maxItems":
		return fieldTooLong, fmt.Sprintf("It must have at most %d elements.", *s.MaxItems)
	case "maxProperties":
		return fieldTooLong, fmt.Sprintf("It must have at most %d members.", *s.MaxProps)
	case "minimum":
		return fieldRange, fmt.Sprintf("It must be at least %v.", *s.Min)
	case "maximum":
		return fieldRange, fmt.Sprintf("It must be at most %v.", *s.Max)
	}
	return fieldValue, "It is not what the contract says."
}

func kindOfSchema(s *openapi3.Schema) string {
	switch {
	case s.Type.Is(openapi3.TypeString):
		return "a string"
	case s.Type.Is(openapi3.TypeInteger):
		return "a whole number"
	case s.Type.Is(openapi3.TypeBoolean):
		return "a boolean"
	case s.Type.Is(openapi3.TypeArray):
		return "a list"
	}
	return "an object"
}

// binder reads a body that the contract has accepted into its type. echo's own would also read the query into it.
type binder struct{}

// Bind implements echo.Binder.
func (binder) Bind(into any, c echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	if err := decode(body, into); err != nil {
		// The contract let something through that the type has no room for, as a number beyond its range.
		return refuse(codeValidationFailed, "The body does not fit: a number is out of range, or has a fraction.")
	}
	return nil
}
