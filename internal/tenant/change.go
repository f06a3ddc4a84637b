package tenant

// Change says what a request does to a field: the zero value keeps it as it is, as a field that is absent from a merge
// patch (RFC 7396) does.
type Change[T any] struct {
	kind  changeKind
	value T
}

type changeKind uint8

const (
	keep changeKind = iota
	clearing
	setting
)

// To sets a field.
func To[T any](value T) Change[T] { return Change[T]{setting, value} }

// Clear puts a field back to its default, as null does.
func Clear[T any]() Change[T] { return Change[T]{kind: clearing} }

// Keeps says whether the field stays as it is.
func (c Change[T]) Keeps() bool { return c.kind == keep }

// Clears says whether the field goes back to its default.
func (c Change[T]) Clears() bool { return c.kind == clearing }

// Apply returns what the field becomes, of what it is and of its default.
func (c Change[T]) Apply(current, fallback T) T {
	switch c.kind {
	case clearing:
		return fallback
	case setting:
		return c.value
	}
	return current
}
