package api

import "errors"

// PostedEvent is what ReadEvent reads.
type PostedEvent = postedEvent

// ReadEvent is readEvent.
var ReadEvent = readEvent

// CheckText is checkText.
var CheckText = checkText

// MaxNesting is maxNesting.
const MaxNesting = maxNesting

// CodeOf is the code of the problem that an error becomes, and the pointers of its fields.
func CodeOf(err error) (code string, pointers []string) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return "", nil
	}
	for _, f := range r.fields {
		if f.Pointer != nil {
			pointers = append(pointers, *f.Pointer)
		}
	}
	return string(r.code), pointers
}

// Kinds is the status of every problem code.
func Kinds() map[string]int {
	all := make(map[string]int)
	for _, k := range kinds() {
		all[string(k.Code)] = k.Status
	}
	return all
}
