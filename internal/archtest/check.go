package archtest

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// rule is one rule: its name, and what finds its violations.
type rule struct {
	name  string
	check func(*tree) []Violation
}

// rules is all of them.
func rules() []rule {
	return []rule{
		{"import-order", importOrder},
		{"third-party-home", thirdPartyHome},
		{"package-name", packageName},
		{"package-doc", packageDoc},
		{"size", size},
		{"generated", generated},
		{"no-init", noInit},
		{"no-sleep-in-tests", noSleepInTests},
		{"external-tests", externalTests},
		{"no-context-values", noContextValues},
		{"no-default-client", noDefaultClient},
		{"no-weak-random", noWeakRandom},
		{"environment-in-cmd", environmentInCmd},
		{"no-error-text", noErrorText},
		{"tx-methods", txMethods},
		{"sql-names-tenant", sqlNamesTenant},
	}
}

// Check reads a repository and returns every violation of every rule, exceptions taken off, by file and line.
func Check(root fs.FS) ([]Violation, error) {
	t, err := read(root)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, r := range rules() {
		found = append(found, r.check(t)...)
	}
	found = except(found, exceptions())
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Rule, b.Rule))
	})
	return found, nil
}

// exception lets one place break one rule, and says why it must.
type exception struct {
	rule  string
	where string // a folder, a file, or either with ":" and the name of a function
	why   string
}

// covers says whether a violation is the exception's.
func (e exception) covers(v Violation) bool {
	place, fn, named := strings.Cut(e.where, ":")
	if e.rule != v.Rule || (named && fn != v.Func) {
		return false
	}
	return v.File == place || strings.HasPrefix(v.File, place+"/")
}

// except takes off what is excepted, and adds a violation for each exception that covers nothing.
func except(found []Violation, list []exception) []Violation {
	used := make([]bool, len(list))
	left := slices.DeleteFunc(slices.Clone(found), func(v Violation) bool {
		for i, e := range list {
			if e.covers(v) {
				used[i] = true
				return true
			}
		}
		return false
	})
	for i, e := range list {
		switch {
		case e.why == "":
			left = append(left, Violation{Rule: "exception", File: e.where, Text: fmt.Sprintf("the exception from %s gives no reason", e.rule)})
		case !used[i]:
			left = append(left, Violation{Rule: "exception", File: e.where, Text: fmt.Sprintf("nothing there breaks %s any more: delete the exception", e.rule)})
		}
	}
	return left
}
