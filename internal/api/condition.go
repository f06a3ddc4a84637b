package api

import (
	"strconv"
	"strings"
)

// ifVersion reads an If-Match: the version that must still be there, or nil for any. A tag that is none of ours (a weak
// one, say) is a version that nothing has.
func ifVersion(header *IfMatch) (*int64, error) {
	if header == nil || strings.TrimSpace(*header) == "*" {
		return nil, nil
	}
	if strings.Contains(*header, ",") {
		return nil, refuseFields(codeParameterInvalid, []FieldError{parameterError("If-Match", fieldFormat, "It must be one ETag.")})
	}
	version, ok := versionOf(strings.TrimSpace(*header))
	if !ok {
		version = -1
	}
	return &version, nil
}

// unchanged says whether an If-None-Match names the version that a thing has.
func unchanged(header *IfNoneMatch, version int64) bool {
	if header == nil {
		return false
	}
	for tag := range strings.SplitSeq(*header, ",") {
		tag = strings.TrimSpace(tag)
		// RFC 9110, 13.1.2: compared weakly, so that a cache in between may have weakened it.
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag(version) {
			return true
		}
	}
	return false
}

func versionOf(tag string) (int64, bool) {
	version, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	return version, err == nil && etag(version) == tag
}
