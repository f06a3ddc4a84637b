package main

import (
	"errors"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

// judgeContents asks the packages that are given a setting whether they can use it. What it returns is a
// settings.Problems.
func judgeContents(s *settings.Settings) error {
	var wrong settings.Problems
	problem := func(name string, err error, do string) {
		wrong = append(wrong, settings.Problem{Setting: name, What: "cannot be used: " + err.Error(), Where: s.Origin(name).String(), Do: do})
	}
	if s.SecretKeys.IsSet() {
		if _, err := signing.ParseKeyring(s.SecretKeys.Reveal()); err != nil {
			problem("SECRET_KEYS", err, "`gateway keys generate` makes a key.")
		}
	}
	const forms = "Write addresses as 203.0.113.7, 203.0.113.0/24 or host:port."
	if err := (egress.Policy{Allow: s.EgressAllow}).Validate(); err != nil {
		problem("EGRESS_ALLOW", firstLine(err), forms)
	}
	if err := (egress.Policy{Deny: s.EgressDeny}).Validate(); err != nil {
		problem("EGRESS_DENY", firstLine(err), forms)
	}
	if len(wrong) == 0 {
		return nil
	}
	return wrong
}

// firstLine is the first of several errors that were joined.
func firstLine(err error) error {
	line, _, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	return errors.New(line + " (and more)")
}
