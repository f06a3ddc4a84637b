package endpoint

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/glob"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// Limits and defaults of an endpoint's settings.
const (
	DefaultTimeout     = 15 * time.Second
	MinTimeout         = time.Second
	MaxTimeout         = 30 * time.Second
	DefaultMaxInFlight = 50
	MaxMaxInFlight     = 100
	maxDescription     = 1024
	maxDelays          = 17                 // 18 tries
	maxSchedule        = 8 * 24 * time.Hour // a run is never older
)

func everything() []string { return []string{"**"} }

// fresh is the endpoint that a spec asks for, not yet checked.
func (s Spec) fresh(caller tenant.Caller) Endpoint {
	e := Endpoint{
		TenantID: caller.Tenant, UID: s.UID, URL: s.URL, Description: s.Description, Types: s.Types, Scopes: s.Scopes,
		Metadata: s.Metadata, Timeout: s.Timeout, MaxInFlight: s.MaxInFlight, RatePerSecond: s.RatePerSecond, Schedule: s.Schedule,
		TraceParent: s.TraceParent == nil || *s.TraceParent,
	}
	if e.Types == nil {
		e.Types = everything()
	}
	if e.Scopes == nil {
		e.Scopes = defaultScopes(caller)
	}
	if e.Timeout == 0 {
		e.Timeout = DefaultTimeout
	}
	if e.MaxInFlight == 0 {
		e.MaxInFlight = DefaultMaxInFlight
	}
	return e
}

func defaultScopes(caller tenant.Caller) []string {
	if caller.EventScopes != nil {
		return caller.EventScopes
	}
	return everything()
}

// apply returns the endpoint that a patch makes of e, not yet checked; headers are apart.
func (p Patch) apply(e Endpoint, caller tenant.Caller) Endpoint {
	e.UID = p.UID.Apply(e.UID, nil)
	e.URL = p.URL.Apply(e.URL, "")
	e.Description = p.Description.Apply(e.Description, "")
	e.Types = p.Types.Apply(e.Types, everything())
	e.Scopes = p.Scopes.Apply(e.Scopes, defaultScopes(caller))
	e.Metadata = tenant.MergeMetadata(e.Metadata, p.Metadata)
	e.Timeout = p.Timeout.Apply(e.Timeout, DefaultTimeout)
	e.MaxInFlight = p.MaxInFlight.Apply(e.MaxInFlight, DefaultMaxInFlight)
	e.RatePerSecond = p.RatePerSecond.Apply(e.RatePerSecond, nil)
	e.Schedule = p.Schedule.Apply(e.Schedule, nil)
	e.TraceParent = p.TraceParent.Apply(e.TraceParent, true)
	return e
}

// check says what is wrong with an endpoint's settings, and puts URL and globs into the form in which they are stored.
// Errors are *Invalid, but for a policy that is itself wrong.
func (e *Endpoint) check(policy egress.Policy, checkURL bool) error {
	if err := tenant.CheckUID(e.UID); err != nil {
		return err
	}
	if checkURL {
		if err := e.canonicalURL(policy); err != nil {
			return err
		}
	}
	var err error
	if e.Types, err = storedGlobs("types", e.Types, CompileTypes); err != nil {
		return err
	}
	if e.Scopes, err = storedGlobs("scopes", e.Scopes, CompileScopes); err != nil {
		return err
	}
	if err := tenant.CheckMetadata(e.Metadata); err != nil {
		return err
	}
	switch {
	case len(e.Description) > maxDescription || !utf8.ValidString(e.Description) || strings.ContainsRune(e.Description, 0):
		return invalid("description", "It is at most %d bytes of UTF-8 without NUL.", maxDescription)
	case e.Timeout < MinTimeout || e.Timeout > MaxTimeout || e.Timeout%time.Millisecond != 0:
		return invalid("timeout_ms", "It is %d to %d.", MinTimeout.Milliseconds(), MaxTimeout.Milliseconds())
	case e.MaxInFlight < 1 || e.MaxInFlight > MaxMaxInFlight:
		return invalid("max_in_flight", "It is 1 to %d.", MaxMaxInFlight)
	case e.RatePerSecond != nil && (*e.RatePerSecond < 1 || *e.RatePerSecond > math.MaxInt32):
		return invalid("rate_per_second", "It is at least 1.")
	}
	return checkSchedule(e.Schedule)
}

func (e *Endpoint) canonicalURL(policy egress.Policy) error {
	u, err := egress.ParseURL(e.URL, policy)
	var refused *egress.URLError
	switch {
	case errors.As(err, &refused):
		return &Invalid{Field: "url", Code: refused.Code, Detail: refused.Detail, Hint: refused.Hint}
	case err != nil:
		return fmt.Errorf("judge a URL: %w", err)
	}
	e.URL = u.String()
	return nil
}

func storedGlobs(field string, texts []string, compile func([]string) (Globs, error)) ([]string, error) {
	if len(texts) == 0 {
		return nil, &Invalid{Field: field, Code: tenant.CodeInvalid, Detail: "The endpoint would get nothing.",
			Hint: "Leave " + field + ` out, or say ["**"], to get everything; to get nothing for a while, pause the endpoint.`}
	}
	g, err := compile(texts)
	var wrong *glob.Error
	if errors.As(err, &wrong) {
		return nil, &Invalid{Field: fmt.Sprintf("%s/%d", field, wrong.Index), Code: tenant.CodeGlob, Detail: wrong.Error()}
	}
	return g.Texts(), err
}

func checkSchedule(delays []time.Duration) error {
	if delays == nil {
		return nil
	}
	if len(delays) == 0 || len(delays) > maxDelays {
		return invalid("schedule", "It has 1 to %d delays.", maxDelays)
	}
	sum := time.Duration(0)
	for i, d := range delays {
		field := fmt.Sprintf("schedule/%d", i)
		switch {
		case d < time.Second || d%time.Second != 0 || d > maxSchedule:
			return invalid(field, "A delay is a whole number of seconds, at least 1.")
		case i > 0 && d < delays[i-1]:
			return invalid(field, "A delay is never shorter than the one before it.")
		}
		sum += d
	}
	if sum > maxSchedule {
		return invalid("schedule", "All delays together are at most %d seconds (8 days).", int64(maxSchedule/time.Second))
	}
	return nil
}

// mayManage keeps a token that sees a part of the events from an endpoint that gets more: it could point it to a place
// of its own.
func (e *Endpoint) mayManage(caller tenant.Caller) error {
	if caller.MayGrant(e.Scopes) {
		return nil
	}
	return &Invalid{Field: "scopes", Code: tenant.CodeNotGrantable, Detail: "The endpoint would get events that the token itself may not see.",
		Hint: "Name scopes within " + strings.Join(caller.EventScopes, ", ") + "."}
}

func invalid(field, format string, args ...any) *Invalid {
	return &Invalid{Field: field, Code: tenant.CodeInvalid, Detail: fmt.Sprintf(format, args...)}
}

// seconds and durations are how a schedule is stored and read.
func seconds(delays []time.Duration) []int32 {
	if delays == nil {
		return nil
	}
	out := make([]int32, len(delays))
	for i, d := range delays {
		out[i] = int32(d / time.Second)
	}
	return out
}

func durations(stored []int32) []time.Duration {
	if stored == nil {
		return nil
	}
	out := make([]time.Duration, len(stored))
	for i, s := range stored {
		out[i] = time.Duration(s) * time.Second
	}
	return out
}

// sortedNames are the names of an endpoint's own headers as they are shown.
func sortedNames(headers map[string]string) []string {
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
