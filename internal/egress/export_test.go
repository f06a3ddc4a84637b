package egress

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"testing"
)

// ControlOf is the guard's hook for a dialer, without anything around it.
func ControlOf(t testing.TB, p Policy, host string) Control {
	g, err := p.compile()
	if err != nil {
		t.Fatal(err)
	}
	return control(g, host, nil)
}

// RefusalOf tells whether an error is the guard's, and why it refused.
func RefusalOf(err error) (Class, bool) {
	var no *refusal
	if !errors.As(err, &no) {
		return "", false
	}
	return no.class, true
}

// ReadAnswer reads an answer from bytes as it is read from a connection.
func ReadAnswer(r io.Reader) (status int, header http.Header, body []byte, err error) {
	w := newBuffers().works.Get().(*work)
	w.in = bufio.NewReader(r)
	resp, _, err := w.readAnswer()
	if err != nil {
		return 0, nil, nil, err
	}
	o := outcome{status: resp.StatusCode}
	o.readBody(resp.Body, new([maxBody + 1]byte))
	return resp.StatusCode, resp.Header, o.body, nil
}

// The steps at which an error can come.
const (
	StepResolve = stepResolve
	StepConnect = stepConnect
	StepTLS     = stepTLS
	StepWrite   = stepWrite
	StepRead    = stepRead
)

// Step is how far a Post had come.
type Step = step

// Diagnose maps an error to the closed sets.
func Diagnose(at Step, err error, interrupted bool) (Fault, Reason) {
	return diagnose(at, err, interrupted)
}
