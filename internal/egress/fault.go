package egress

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
)

// Sent says whether a byte of the request left this process. A request that the kernel took counts as sent,
// whether or not the receiver ever read it: from here that can't be known.
type Sent string

const (
	SentYes Sent = "yes"
	SentNo  Sent = "no"
)

// Fault says at which step a Post failed to get an answer. It is empty when an answer's status and headers
// arrived, whatever came after them. A closed set.
type Fault string

const (
	FaultNone        Fault = ""
	FaultDNS         Fault = "dns"
	FaultConnect     Fault = "connect"     // no connection, or it broke before the answer began
	FaultTLS         Fault = "tls"         // the handshake; nothing was sent
	FaultTimeout     Fault = "timeout"     // connected, but no whole answer in time
	FaultProtocol    Fault = "protocol"    // something came that is no final answer
	FaultBlocked     Fault = "blocked"     // refused by the guard; nothing was connected to
	FaultInterrupted Fault = "interrupted" // the caller's context ended
	FaultInternal    Fault = "internal"    // our own trouble; says nothing about the receiver
)

// Reason is a finer word for a Fault, safe to show to a tenant: none tells an address. A closed set.
type Reason string

const (
	ReasonNone Reason = ""

	ReasonDNSNotFound  Reason = "dns_nxdomain"
	ReasonDNSServfail  Reason = "dns_servfail" // any other failure to resolve
	ReasonDNSTimeout   Reason = "dns_timeout"
	ReasonDNSNoAddress Reason = "dns_no_address"

	ReasonConnectRefused     Reason = "connect_refused"
	ReasonConnectUnreachable Reason = "connect_unreachable"
	ReasonConnectTimeout     Reason = "connect_timeout"
	ReasonConnectFailed      Reason = "connect_failed"
	ReasonReset              Reason = "connection_reset"
	ReasonClosed             Reason = "connection_closed"
	ReasonStreamRefused      Reason = "stream_refused" // HTTP/2: the receiver said that it did nothing

	ReasonTLSExpired          Reason = "tls_expired" // or not valid yet
	ReasonTLSNameMismatch     Reason = "tls_name_mismatch"
	ReasonTLSUnknownAuthority Reason = "tls_unknown_authority" // a self-signed certificate too
	ReasonTLSBadCertificate   Reason = "tls_bad_certificate"
	ReasonTLSNotTLS           Reason = "tls_not_tls"
	ReasonTLSClosed           Reason = "tls_closed"
	ReasonTLSTimeout          Reason = "tls_timeout"
	ReasonTLSHandshake        Reason = "tls_handshake"

	ReasonRequestTimeout  Reason = "request_timeout"  // while the request was still being written
	ReasonResponseTimeout Reason = "response_timeout" // while waiting for, or within, the answer's header

	ReasonMalformed        Reason = "malformed_response"
	ReasonCut              Reason = "response_cut" // the connection ended within the answer's header
	ReasonHeadersTooLarge  Reason = "headers_too_large"
	ReasonTooManyInterim   Reason = "too_many_1xx"
	ReasonUnexpectedStatus Reason = "unexpected_status" // 101, below 200, above 599
	ReasonStreamError      Reason = "stream_error"      // HTTP/2: the stream or the connection broke its rules

	ReasonAddressBlocked Reason = "address_blocked"
	ReasonPortBlocked    Reason = "port_blocked"
	ReasonURLBlocked     Reason = "url_blocked" // a URL that registration would refuse today

	ReasonCancelled Reason = "cancelled"

	ReasonDescriptors    Reason = "descriptors_exhausted"
	ReasonMemory         Reason = "memory_exhausted"
	ReasonPorts          Reason = "ports_exhausted"
	ReasonInvalidRequest Reason = "request_invalid" // a header that can't be sent
	ReasonClientClosed   Reason = "client_closed"
)

// step is how far a Post had come.
type step int

const (
	stepPrepare step = iota
	stepResolve
	stepConnect
	stepTLS
	stepWrite
	stepRead
)

// Errors of our own, for what the standard library has no type.
var (
	errNoAddress        = errors.New("no address")
	errInvalidRequest   = errors.New("request can't be written")
	errClientClosed     = errors.New("client is closed")
	errNoAnswer         = errors.New("connection closed before an answer")
	errCut              = errors.New("connection closed within an answer's header")
	errHeadersTooLarge  = errors.New("answer's header too large")
	errTooManyInterim   = errors.New("too many interim answers")
	errMalformed        = errors.New("malformed answer")
	errUnexpectedStatus = errors.New("no final status")
)

// refusal is the guard's no. Its text is for the operator.
type refusal struct{ class Class }

func (r *refusal) Error() string { return fmt.Sprintf("refused by the egress guard: %s", r.class) }

// exact maps the errors that say everything by themselves, at whatever step.
var exact = []struct {
	err    error
	fault  Fault
	reason Reason
}{
	{syscall.EMFILE, FaultInternal, ReasonDescriptors},
	{syscall.ENFILE, FaultInternal, ReasonDescriptors},
	{syscall.ENOBUFS, FaultInternal, ReasonMemory},
	{syscall.ENOMEM, FaultInternal, ReasonMemory},
	{syscall.EADDRNOTAVAIL, FaultInternal, ReasonPorts}, // see dialOne for IPv6
	{errInvalidRequest, FaultInternal, ReasonInvalidRequest},
	{errClientClosed, FaultInternal, ReasonClientClosed},
	{errNoAddress, FaultDNS, ReasonDNSNoAddress},
	{errNoAnswer, FaultConnect, ReasonClosed},
	{errCut, FaultProtocol, ReasonCut},
	{errHeadersTooLarge, FaultProtocol, ReasonHeadersTooLarge},
	{errTooManyInterim, FaultProtocol, ReasonTooManyInterim},
	{errMalformed, FaultProtocol, ReasonMalformed},
	{errUnexpectedStatus, FaultProtocol, ReasonUnexpectedStatus},
}

// diagnose maps an error to the closed sets, by its types alone and by the step at which it came. interrupted
// tells that the caller's context has ended, which explains every error that follows. Pure.
func diagnose(at step, err error, interrupted bool) (Fault, Reason) {
	var no *refusal
	if errors.As(err, &no) {
		return FaultBlocked, blockedReason(no.class)
	}
	if interrupted {
		return FaultInterrupted, ReasonCancelled
	}
	for _, e := range exact {
		if errors.Is(err, e.err) {
			return e.fault, e.reason
		}
	}
	switch at {
	case stepResolve:
		return FaultDNS, dnsReason(err)
	case stepConnect:
		return FaultConnect, connectReason(err)
	case stepTLS:
		return FaultTLS, tlsReason(err)
	case stepWrite:
		if isTimeout(err) {
			return FaultTimeout, ReasonRequestTimeout
		}
	case stepRead:
		if isTimeout(err) {
			return FaultTimeout, ReasonResponseTimeout
		}
	default:
		return FaultInternal, ReasonInvalidRequest
	}
	return exchangeFault(err)
}

// blockedReason tells a tenant no more than its own URL does.
func blockedReason(c Class) Reason {
	switch c {
	case ClassPort:
		return ReasonPortBlocked
	case ClassURL, ClassInsecure:
		return ReasonURLBlocked
	default:
		return ReasonAddressBlocked
	}
}

func dnsReason(err error) Reason {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return ReasonDNSNotFound
	case isTimeout(err):
		return ReasonDNSTimeout
	default:
		return ReasonDNSServfail
	}
}

func connectReason(err error) Reason {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReasonConnectRefused
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETDOWN), errors.Is(err, syscall.EHOSTDOWN):
		return ReasonConnectUnreachable
	case errors.Is(err, syscall.ECONNRESET):
		return ReasonReset
	case isTimeout(err):
		return ReasonConnectTimeout
	default:
		return ReasonConnectFailed
	}
}

func tlsReason(err error) Reason {
	var (
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
		cert      x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &cert) && cert.Reason == x509.Expired:
		return ReasonTLSExpired
	case errors.As(err, &name):
		return ReasonTLSNameMismatch
	case errors.As(err, &authority):
		return ReasonTLSUnknownAuthority
	case errors.As(err, &cert), errors.As(err, &verify):
		return ReasonTLSBadCertificate
	case errors.As(err, &record):
		return ReasonTLSNotTLS
	case isTimeout(err):
		return ReasonTLSTimeout
	case isEnd(err):
		return ReasonTLSClosed
	default:
		return ReasonTLSHandshake
	}
}

// exchangeFault maps what can break a request and its answer once there is a connection. What HTTP/2 reports
// only by unexported values (a GOAWAY, a connection that can't be used any more) means that it is gone.
func exchangeFault(err error) (Fault, Reason) {
	var (
		stream streamError
		record tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &stream) && stream.Code == codeRefusedStream:
		return FaultConnect, ReasonStreamRefused
	case errors.As(err, &stream), isHTTP2Violation(err):
		return FaultProtocol, ReasonStreamError
	case errors.As(err, &record):
		return FaultProtocol, ReasonMalformed
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FaultConnect, ReasonReset
	default:
		return FaultConnect, ReasonClosed
	}
}

// isTimeout covers our own limits and the kernel's (ETIMEDOUT).
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
