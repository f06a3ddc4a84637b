package checker

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// Report is what was found, counted. The package's comment says what each means.
type Report struct {
	Events, Requests int

	Lost, Phantom, Doubled, BadSignature, Altered, Rows, CrossTenant, Canaries, Unfinished int // must be 0
	Duplicates, NotTaken                                                                   int // have a bound

	Heal     time.Duration // from the end of the last fault to the first arrival of the last event that was answered before it
	Examples map[string][]string
}

// examples is how many of each kind are kept.
const examples = 5

func (r *Report) example(kind, format string, args ...any) {
	if len(r.Examples[kind]) < examples {
		r.Examples[kind] = append(r.Examples[kind], fmt.Sprintf(format, args...))
	}
}

// Bounds are what a run may show.
type Bounds struct {
	Duplicates int           // at most
	NotTaken   int           // at most
	Heal       time.Duration // at most; 0: not looked at
}

// Wrong says in a line each what is not as it must be, with examples.
func (r Report) Wrong(b Bounds) []string {
	var wrong []string
	for _, c := range []struct {
		name string
		n    int
		most int
	}{
		{"lost", r.Lost, 0}, {"phantom", r.Phantom, 0}, {"doubled", r.Doubled, 0}, {"duplicate", r.Duplicates, b.Duplicates},
		{"bad signature", r.BadSignature, 0}, {"altered", r.Altered, 0}, {"rows", r.Rows, 0}, {"cross-tenant", r.CrossTenant, 0},
		{"canary", r.Canaries, 0}, {"unfinished", r.Unfinished, 0}, {"not taken", r.NotTaken, b.NotTaken},
	} {
		if c.n > c.most {
			wrong = append(wrong, fmt.Sprintf("%s: %d, at most %d; as\n\t%s", c.name, c.n, c.most, strings.Join(r.Examples[c.name], "\n\t")))
		}
	}
	if b.Heal > 0 && r.Heal > b.Heal {
		wrong = append(wrong, fmt.Sprintf("healed after %s, at most %s", r.Heal.Round(time.Millisecond), b.Heal))
	}
	return wrong
}

// Hold fails the test where a report is out of bounds.
func (r Report) Hold(t testing.TB, b Bounds) {
	t.Helper()
	for _, text := range r.Wrong(b) {
		t.Error(text)
	}
}

// columns of the table, after the run's name.
var columns = [...]string{"events", "requests", "lost", "phantom", "doubled", "bad sig", "altered", "rows", "x-tenant", "canary", "unfinished", "dup", "not taken", "heal"}

// Table writes reports as rows of a table, by their names in order.
func Table(w io.Writer, reports map[string]Report) {
	names, widest := make([]string, 0, len(reports)), len("run")
	for name := range reports {
		names = append(names, name)
		widest = max(widest, len(name))
	}
	slices.Sort(names)
	row := func(name string, cells []string) {
		fmt.Fprintf(w, "%-*s", widest, name)
		for i, cell := range cells {
			fmt.Fprintf(w, "  %*s", max(len(columns[i]), 6), cell)
		}
		fmt.Fprintln(w)
	}
	row("run", columns[:])
	for _, name := range names {
		r := reports[name]
		var cells []string
		for _, n := range []int{r.Events, r.Requests, r.Lost, r.Phantom, r.Doubled, r.BadSignature, r.Altered, r.Rows, r.CrossTenant, r.Canaries, r.Unfinished, r.Duplicates, r.NotTaken} {
			cells = append(cells, fmt.Sprint(n))
		}
		row(name, append(cells, fmt.Sprintf("%.2fs", r.Heal.Seconds())))
	}
}
