package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egress"
)

// The errors that are hard to bring about, and one of each of the rest: the map is pure.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	op := func(err error) error {
		return fmt.Errorf("outer: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)})
	}
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		name   string
		step   egress.Step
		err    error
		fault  egress.Fault
		reason egress.Reason
	}{
		{"name not found", egress.StepResolve, &net.DNSError{IsNotFound: true}, egress.FaultDNS, egress.ReasonDNSNotFound},
		{"server failed", egress.StepResolve, &net.DNSError{IsTemporary: true}, egress.FaultDNS, egress.ReasonDNSServfail},
		{"resolver's limit", egress.StepResolve, &net.DNSError{IsTimeout: true}, egress.FaultDNS, egress.ReasonDNSTimeout},
		{"our limit", egress.StepResolve, context.DeadlineExceeded, egress.FaultDNS, egress.ReasonDNSTimeout},
		{"unheard of", egress.StepResolve, errors.New("x"), egress.FaultDNS, egress.ReasonDNSServfail},
		{"no descriptor for the query", egress.StepResolve, op(syscall.EMFILE), egress.FaultInternal, egress.ReasonDescriptors},
		{"refused", egress.StepConnect, op(syscall.ECONNREFUSED), egress.FaultConnect, egress.ReasonConnectRefused},
		{"no route to the host", egress.StepConnect, op(syscall.EHOSTUNREACH), egress.FaultConnect, egress.ReasonConnectUnreachable},
		{"no route to the network", egress.StepConnect, op(syscall.ENETUNREACH), egress.FaultConnect, egress.ReasonConnectUnreachable},
		{"reset", egress.StepConnect, op(syscall.ECONNRESET), egress.FaultConnect, egress.ReasonReset},
		{"kernel's limit", egress.StepConnect, op(syscall.ETIMEDOUT), egress.FaultConnect, egress.ReasonConnectTimeout},
		{"our limit", egress.StepConnect, timeout, egress.FaultConnect, egress.ReasonConnectTimeout},
		{"unheard of", egress.StepConnect, errors.New("x"), egress.FaultConnect, egress.ReasonConnectFailed},
		{"too many open files", egress.StepConnect, op(syscall.EMFILE), egress.FaultInternal, egress.ReasonDescriptors},
		{"too many in the system", egress.StepConnect, op(syscall.ENFILE), egress.FaultInternal, egress.ReasonDescriptors},
		{"no memory", egress.StepConnect, op(syscall.ENOMEM), egress.FaultInternal, egress.ReasonMemory},
		{"no port is left", egress.StepConnect, op(syscall.EADDRNOTAVAIL), egress.FaultInternal, egress.ReasonPorts},
		{"expired", egress.StepTLS, &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, egress.FaultTLS, egress.ReasonTLSExpired},
		{"another name", egress.StepTLS, &tls.CertificateVerificationError{Err: x509.HostnameError{}}, egress.FaultTLS, egress.ReasonTLSNameMismatch},
		{"another authority", egress.StepTLS, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, egress.FaultTLS, egress.ReasonTLSUnknownAuthority},
		{"not for servers", egress.StepTLS, x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, egress.FaultTLS, egress.ReasonTLSBadCertificate},
		{"otherwise unfit", egress.StepTLS, &tls.CertificateVerificationError{Err: errors.New("x")}, egress.FaultTLS, egress.ReasonTLSBadCertificate},
		{"plain text", egress.StepTLS, tls.RecordHeaderError{}, egress.FaultTLS, egress.ReasonTLSNotTLS},
		{"closed", egress.StepTLS, io.EOF, egress.FaultTLS, egress.ReasonTLSClosed},
		{"reset", egress.StepTLS, op(syscall.ECONNRESET), egress.FaultTLS, egress.ReasonTLSClosed},
		{"limit", egress.StepTLS, context.DeadlineExceeded, egress.FaultTLS, egress.ReasonTLSTimeout},
		{"an alert", egress.StepTLS, &net.OpError{Op: "remote error", Err: errors.New("x")}, egress.FaultTLS, egress.ReasonTLSHandshake},
		{"limit", egress.StepWrite, timeout, egress.FaultTimeout, egress.ReasonRequestTimeout},
		{"broken pipe", egress.StepWrite, op(syscall.EPIPE), egress.FaultConnect, egress.ReasonReset},
		{"kernel's limit", egress.StepRead, op(syscall.ETIMEDOUT), egress.FaultTimeout, egress.ReasonResponseTimeout},
		{"limit", egress.StepRead, timeout, egress.FaultTimeout, egress.ReasonResponseTimeout},
		{"reset", egress.StepRead, op(syscall.ECONNRESET), egress.FaultConnect, egress.ReasonReset},
		{"end", egress.StepRead, io.ErrUnexpectedEOF, egress.FaultConnect, egress.ReasonClosed},
		{"no TLS any more", egress.StepRead, tls.RecordHeaderError{}, egress.FaultProtocol, egress.ReasonMalformed},
		{"unheard of", egress.StepRead, errors.New("x"), egress.FaultConnect, egress.ReasonClosed},
	} {
		if fault, reason := egress.Diagnose(c.step, c.err, false); fault != c.fault || reason != c.reason {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, fault, reason, c.fault, c.reason)
		}
		if fault, _ := egress.Diagnose(c.step, c.err, true); fault != egress.FaultInterrupted {
			t.Errorf("%s, interrupted: %q", c.name, fault)
		}
	}
}
