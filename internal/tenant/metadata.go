package tenant

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what callers keep with us, in bytes.
const (
	MaxMetadataKeys  = 50
	MaxMetadataKey   = 64
	MaxMetadataValue = 512
	maxUID           = 128
	maxName          = 256
	maxTokenName     = 128
)

// CheckMetadata says what is wrong with a caller's own metadata; the error is an *Invalid.
func CheckMetadata(metadata map[string]string) error {
	if len(metadata) > MaxMetadataKeys {
		return invalid("metadata", "It has %d keys; at most %d are allowed.", len(metadata), MaxMetadataKeys)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		switch {
		case key == "" || len(key) > MaxMetadataKey || !plain(key):
			return invalid("metadata", "A key is 1 to %d bytes of UTF-8 without control characters.", MaxMetadataKey)
		case len(value) > MaxMetadataValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			return invalid("metadata/"+PointerToken(key), "A value is at most %d bytes of UTF-8 without NUL.", MaxMetadataValue)
		}
	}
	return nil
}

// MergeMetadata returns what a change makes of a caller's metadata: members are set one by one, nil removes one.
func MergeMetadata(current map[string]string, change Change[map[string]*string]) map[string]string {
	merged := make(map[string]string, len(current))
	if !change.Clears() {
		maps.Copy(merged, current)
	}
	for key, value := range change.Apply(nil, nil) {
		if value == nil {
			delete(merged, key)
		} else {
			merged[key] = *value
		}
	}
	return merged
}

// PointerToken writes a member's name as a part of a JSON pointer.
func PointerToken(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// CheckUID says whether a text can be a caller's own name of a thing; the error is an *Invalid.
func CheckUID(uid *string) error {
	if uid == nil {
		return nil
	}
	ok := *uid != "" && len(*uid) <= maxUID
	for i := range len(*uid) {
		c := (*uid)[i]
		ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return invalid("uid", "A uid is 1 to %d of the characters A-Z, a-z, 0-9, _ and -.", maxUID)
	}
	return nil
}

func checkName(field, name string, most int) error {
	if strings.TrimSpace(name) == "" || len(name) > most || !plain(name) {
		return invalid(field, "It is 1 to %d bytes of UTF-8 without control characters, and not only spaces.", most)
	}
	return nil
}

// plain says whether a text is UTF-8 without control characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
