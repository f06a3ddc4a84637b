package api

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sallyport-dev/sallyport/internal/glob"
)

// filters are what the lists of events and of deliveries have in common.
type filters struct {
	since, until *time.Time
	types        []string // regular expressions; nil: all
	scopes       []string // those that the caller's token may see; nil: all
}

func (c *call) filters(since *Since, until *Until, types *TypeFilter) (f filters, err error) {
	if f.since, err = timeParameter("since", since); err != nil {
		return f, err
	}
	if f.until, err = timeParameter("until", until); err != nil {
		return f, err
	}
	if types != nil {
		if f.types, err = expressions(glob.Dot, *types); err != nil {
			if g, ok := errors.AsType[*glob.Error](err); ok {
				return f, refuseFields(codeParameterInvalid, []FieldError{parameterError("type", fieldFormat, nameFault(g))})
			}
			return f, err
		}
	}
	if c.caller.EventScopes != nil {
		if f.scopes, err = expressions(glob.Slash, c.caller.EventScopes); err != nil {
			return f, fmt.Errorf("read the event scopes of a token: %w", err)
		}
	}
	return f, nil
}

// expressions turns globs into what the database can search with; nil if they admit everything.
func expressions(separator glob.Separator, globs []string) ([]string, error) {
	patterns, err := glob.ParseList(separator, globs)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(patterns))
	for i, p := range patterns {
		if p.All() {
			return nil, nil
		}
		out[i] = p.Regexp()
	}
	return out, nil
}

func timeParameter(name string, text *string) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}
	at, ok := parseTime(*text)
	if !ok {
		return nil, refuseFields(codeParameterInvalid, []FieldError{parameterError(name, fieldFormat, timeFault)})
	}
	return &at, nil
}

// statusRange reads a filter of HTTP statuses, 503 or 5xx; the contract has checked its form.
func statusRange(text *string) (from, to *int) {
	if text == nil {
		return nil, nil
	}
	if status, err := strconv.Atoi(*text); err == nil {
		return &status, &status
	}
	least := int((*text)[0]-'0') * 100
	most := least + 99
	return &least, &most
}
