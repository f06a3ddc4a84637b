package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

// output writes a command's data and its words. Safe for concurrent use.
type output struct {
	mu             sync.Mutex
	stdout, stderr io.Writer
	json           bool
	quiet          bool
	colour         bool
}

// The colours of words for people.
const (
	red   = "31"
	green = "32"
	dim   = "2"
)

// paint colours a text where colours are wanted.
func (o *output) paint(colour, text string) string {
	if !o.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// say tells people something.
func (o *output) say(format string, args ...any) {
	if o.quiet {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.stderr, format+"\n", args...)
}

// hint is what to do next, in a quieter colour.
func (o *output) hint(format string, args ...any) {
	o.say("%s", o.paint(dim, fmt.Sprintf(format, args...)))
}

// fail tells an error, --quiet or not: in one line, or one for each problem of the settings.
func (o *output) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var wrong settings.Problems
	if errors.As(err, &wrong) {
		for _, one := range wrong {
			fmt.Fprintf(o.stderr, "%s %s\n", o.paint(red, "gateway:"), one.Error())
		}
		return
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	fmt.Fprintf(o.stderr, "%s %s\n", o.paint(red, "gateway:"), text)
}

// data writes a command's result: value with --json, else what human writes, which may also say something.
func (o *output) data(value any, human func(w io.Writer)) error {
	var text bytes.Buffer
	if !o.json {
		human(&text)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.json {
		enc := json.NewEncoder(o.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(value); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		return nil
	}
	if _, err := o.stdout.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// line writes one value as one line of JSON; for results that come one after the other.
func (o *output) line(value any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	enc := json.NewEncoder(o.stdout)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // a reader that has gone away is no reason to stop
}

// columns writes rows of text in columns.
func columns(w io.Writer, rows ...[]string) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tab, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = tab.Flush()
}
